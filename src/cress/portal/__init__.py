"""The portal: the pages of a cluster in a browser, as a process of its own on the public API of the center."""
