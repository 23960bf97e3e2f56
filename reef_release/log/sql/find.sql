-- How people find events: by what they name, never by reading the whole log.

-- name: events_at
select position, body
from reef.events
where position = any($1::bigint[])
order by position

-- name: event_with_id
select position, body
from reef.events
where event_id = $1

-- name: events_of_streams
-- All events of some streams up to a position, by the index of the streams' versions.
select position, body
from reef.events
where scenario = $2 and stream = any($3::text[]) and position <= $1
order by position
limit $4

-- name: events_of_versions
select position, body
from reef.events
where scenario = $1 and stream = $2 and version = any($3::integer[])
order by version

-- name: containing
-- Those of a window of positions whose bytes hold a text, newest first. The window bounds what is
-- read: a text has no index.
select position, body
from reef.events
where position > $1 and position <= $2
    and ($3::text is null or scenario = $3)
    and ($4::text is null or type = $4)
    and position($5::bytea in body) > 0
order by position desc
limit $6
