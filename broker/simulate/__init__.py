"""The policy simulator: the very broker core under a discrete-event clock."""
