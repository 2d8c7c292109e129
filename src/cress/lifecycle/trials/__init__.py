"""Trials on a copy of the machine: the course of the cluster with a change, and without it (design note 0052)."""
