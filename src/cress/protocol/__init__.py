"""The messages between center, executor and client, and the views of the API."""
