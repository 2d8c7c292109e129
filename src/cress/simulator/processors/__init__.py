"""Processor logs as columns: FIFO and EASY backfilling of a log on one node, in compiled loops."""
