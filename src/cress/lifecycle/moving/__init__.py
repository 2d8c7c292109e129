"""Rounds of moves: the choice of tasks that may move, and the execution of a plan step by step."""
