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
