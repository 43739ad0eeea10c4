"""Workers in tasks of Spark: one Spark job with one task for each process."""
