"""Packing: pods arrive on an empty cluster and stay, until more was asked for than there is; what of the GPUs each
order of nodes allocates.
"""
