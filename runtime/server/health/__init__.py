"""Health checks of the engine: canary and watchdog."""
