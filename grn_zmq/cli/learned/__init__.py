"""What was learned of job types, as people see, set and move it."""
