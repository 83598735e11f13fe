"""``goalwright acp``: Goalwright for editors that speak the Agent Client Protocol."""
