"""Requests and their scheduling: waiting queue, slots, frames and due audio."""
