"""Generation behind one shape: in this process, or over HTTP as vLLM speaks it."""
