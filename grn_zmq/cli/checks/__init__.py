"""What `grn doctor` looks at; each check gives one finding."""
