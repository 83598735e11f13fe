"""The steps from stored messages to what the model is sent, each a pure function from blocks to blocks."""
