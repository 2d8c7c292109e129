"""Families: services, databases, cron jobs and dags."""
