-- Training goes on in the stream of its batch, so that the stream's last event no longer tells who
-- holds the batch. Whether a training makes sense is the fold's business.

-- name: batch_reasons
-- The last event that gives or ends a claim tells who holds the batch. A batch whose training is
-- completed stays with its lease, and is abandoned under it.
create or replace function reef.batch_reasons(
    of_type text, of_scenario text, of_stream text, of_version integer, data jsonb
) returns text[]
language plpgsql
as $$
declare
    last_event record;
    held_by text;
begin
    if of_type = 'batch.formed' then
        return case when of_version = 1 then '{}' else '{known-batch}' end;
    end if;
    select type, event_data(body) as data
        into last_event
        from events
        where scenario = of_scenario
            and stream = of_stream
            and type in ('batch.formed', 'batch.claimed', 'batch.released', 'training.failed')
        order by version desc
        limit 1;
    if not found then
        return '{unknown-batch}';
    end if;
    if last_event.type = 'batch.released'
        and last_event.data ->> 'reason' in ('stale', 'body-missing', 'abandoned')
    then
        return '{batch-ended}';
    end if;
    if last_event.type = 'batch.claimed' then
        held_by := last_event.data ->> 'lease_id';
    end if;
    if of_type = 'batch.claimed' then
        return case
            when held_by is null or held_by = data ->> 'lease_id' then '{}'
            else '{claimed}'
        end;
    end if;
    return case
        when held_by is distinct from data ->> 'lease_id' then '{other-lease}'
        else '{}'
    end;
end
$$
