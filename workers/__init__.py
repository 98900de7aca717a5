"""Workers: one long-lived process per device that supervises job processes."""
