"""Broker and workers as processes: started, kept up, stopped, or hosted by systemd."""
