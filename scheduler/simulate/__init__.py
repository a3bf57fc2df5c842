"""What would happen: clusters and jobs in virtual time, decided by the same code as live ones."""
