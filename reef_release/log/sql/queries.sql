-- What the service asks of the log, apart from appending.

-- name: append
select outcome, at_position, at_version, at_time, reasons
from reef.append_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: schema_revision
select version_num from reef.alembic_version

-- name: head
select position from reef.head

-- name: end
-- The head row beside the last two events, to see whether the log ends as it was written.
select
    h.position as head_position,
    h.chain as head_chain,
    e.position,
    e.body,
    e.chain,
    coalesce(
        (select p.chain from reef.events p where p.position = e.position - 1),
        decode(repeat('00', 32), 'hex')
    ) as chain_before
from reef.head h
left join lateral (select * from reef.events order by position desc limit 1) e on true

-- name: page
select position, body
from reef.events
where position > $1
order by position
limit $2

-- name: page_of_scenario
select position, body
from reef.events
where position > $1 and scenario = $3
order by position
limit $2

-- name: page_of_type
select position, body
from reef.events
where position > $1 and type = $3
order by position
limit $2

-- name: page_of_scenario_and_type
-- By the type's index: a rare type in a busy scenario must not cost the whole scenario.
select position, body
from reef.events
where position > $1 and scenario = $3 and type = $4
order by position
limit $2

-- name: chain_page
select position, body, chain
from reef.events
where position > $1
order by position
limit $2

-- name: newest
select position, body
from reef.events
where position <= $1
order by position desc
limit $2

-- name: newest_of_scenario
-- Here and below whole rows of the index are compared and ordered by, and never the position alone:
-- for a scenario or a type that is rare, or unknown to the planner, it would read the log backwards
-- from its end to find the next one (4 s on a million events).
select position, body
from reef.events
where (scenario, position) <= ($3, $1) and (scenario, position) >= ($3, 0::bigint)
order by scenario desc, position desc
limit $2

-- name: newest_of_types
-- Each type by its own index and only so far as the limit: rare types cost no scan of common ones.
select e.position, e.body
from unnest($3::text[]) as wanted (type)
cross join lateral (
    select position, body
    from reef.events
    where (type, position) <= (wanted.type, $1) and (type, position) >= (wanted.type, 0::bigint)
    order by type desc, position desc
    limit $2
) e
order by e.position desc
limit $2

-- name: newest_of_scenario_and_types
select e.position, e.body
from unnest($4::text[]) as wanted (type)
cross join lateral (
    select position, body
    from reef.events
    where (scenario, type, position) <= ($3, wanted.type, $1)
        and (scenario, type, position) >= ($3, wanted.type, 0::bigint)
    order by scenario desc, type desc, position desc
    limit $2
) e
order by e.position desc
limit $2

-- name: oldest_of_scenario_and_types
select e.position, e.body
from unnest($5::text[]) as wanted (type)
cross join lateral (
    select position, body
    from reef.events
    where (scenario, type, position) > ($4, wanted.type, $1)
        and (scenario, type, position) <= ($4, wanted.type, $2)
    order by scenario, type, position
    limit $3
) e
order by e.position
limit $3

-- name: page_of_stream
select position, body
from reef.events
where scenario = $4 and stream = $5 and position > $1 and position <= $2
order by version
limit $3

-- name: newest_of_streams
-- The last event of each stream.
select e.position, e.body
from unnest($3::text[]) as wanted (stream)
cross join lateral (
    select position, body
    from reef.events
    where scenario = $2 and stream = wanted.stream and position <= $1
    order by version desc
    limit 1
) e
order by e.position

-- name: positions_in_stream
select position
from reef.events
where scenario = $2 and stream = $3 and type = $4 and position <= $1
order by version
