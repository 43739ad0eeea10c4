"""The worker: builds dataflows and runs them over a transport."""
