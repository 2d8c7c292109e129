"""The messages between center, executor and client, and the form in which the API shows things."""
