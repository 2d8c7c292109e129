"""The name service of a running center: changes of places for those who follow them, and the answers to DNS
questions.
"""
