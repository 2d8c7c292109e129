"""The pages, one file for each part of the navigation; each has its ``ROUTES``."""
