"""Scripts and options of Slurm and PBS as jobs of Cress: tables and texts only, no files and no calls."""
