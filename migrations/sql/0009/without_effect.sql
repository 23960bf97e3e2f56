-- A pointer event or an end of a gate or watch that the fold gives no effect must not decide here
-- for ever what no longer changes: its position, put into reef.without_effect by the owner of the
-- database, makes these rules pass over it. The service's role can neither write nor read there.

-- name: last_pointer
create or replace function reef.last_pointer(
    of_scenario text, of_channel text, out at_position bigint, out release_id text
)
language plpgsql
as $$
begin
    select position, event_data(body) ->> 'release_id'
        into at_position, release_id
        from events e
        where scenario = of_scenario
            and stream = 'release/' || of_channel
            and type in ('release.promoted', 'release.rolled_back')
            and not exists (select from without_effect w where w.position = e.position)
        order by version desc
        limit 1;
end
$$

-- name: gate_course_reasons
create or replace function reef.gate_course_reasons(
    of_type text, of_scenario text, of_stream text, data jsonb
) returns text[]
language plpgsql
as $$
declare
    opened record;
    serving record;
    last_type text;
begin
    select position, event_data(body) as data
        into opened
        from events
        where scenario = of_scenario and stream = of_stream and version = 1
        order by version;
    if not found then
        return '{unknown-gate}';
    end if;
    select type
        into last_type
        from events e
        where scenario = of_scenario
            and stream = of_stream
            and not exists (select from without_effect w where w.position = e.position)
        order by version desc
        limit 1;
    if last_type not in ('gate.opened', 'gate.trial') then
        return '{gate-closed}';
    end if;
    if of_type = 'gate.stale' then
        serving := last_pointer(of_scenario, opened.data ->> 'channel');
        if to_jsonb(serving.at_position) is distinct from data -> 'pointer_position' then
            return '{pointer}';
        end if;
        return case when serving.at_position > opened.position then '{}' else '{not-stale}' end;
    end if;
    if of_type <> 'gate.trial'
        and (data ->> 'candidate_id', data ->> 'base', data ->> 'channel')
            is distinct from (
                opened.data ->> 'candidate_id', opened.data ->> 'base', opened.data ->> 'channel')
    then
        return '{other-gate}';
    end if;
    return '{}';
end
$$

-- name: passed_gate
create or replace function reef.passed_gate(
    of_scenario text, of_gate text, out opened_position bigint, out data jsonb
)
language plpgsql
as $$
begin
    select event_data(body)
        into data
        from events e
        where scenario = of_scenario
            and stream = 'gate/' || of_gate
            and type = 'gate.passed'
            and not exists (select from without_effect w where w.position = e.position)
        order by version desc
        limit 1;
    if found then
        select position
            into opened_position
            from events
            where scenario = of_scenario and stream = 'gate/' || of_gate and version = 1
            order by version;
    end if;
end
$$

-- name: watch_reasons
create or replace function reef.watch_reasons(of_scenario text, of_stream text, data jsonb)
returns text[]
language plpgsql
as $$
declare
    serving record;
begin
    serving := last_pointer(of_scenario, data ->> 'channel');
    if serving.at_position is null
        or to_jsonb(serving.at_position) is distinct from data -> 'pointer_position'
        or serving.release_id is distinct from data ->> 'release_id'
    then
        return '{pointer}';
    end if;
    perform from events e
        where scenario = of_scenario
            and stream = of_stream
            and type = 'watch.fallen'
            and not exists (select from without_effect w where w.position = e.position)
        order by version
        limit 1;
    return case when found then '{watch-over}' else '{}' end;
end
$$
