"""Secrets of users and groups: the keys, the encryption, and the delivery to attempts."""
