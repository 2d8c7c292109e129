"""The state of the machine as tables of rows, which note what is written in them."""
