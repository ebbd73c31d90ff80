"""Where the judging of many pairs runs: in this process, or spread over a cluster. Each engine gives results as they come."""
