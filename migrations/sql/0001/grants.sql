-- What the service's role may do: read, and append through the one function.

-- name: grant_schema
grant usage on schema reef to reef_service

-- name: grant_read
grant select on reef.events, reef.head, reef.event_types to reef_service

-- name: grant_append
grant execute on function reef.append_events to reef_service

-- name: revoke_functions
-- The owner's default privileges do this already; it is repeated where it can be read.
revoke execute on all functions in schema reef from public
