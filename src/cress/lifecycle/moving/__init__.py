"""Rounds of moves: which tasks may move, and how a plan is carried out step by step."""
