-- The append function of the first revision, and one thing more: an event whose rule reads other
-- streams stands only where nothing decisive came after the position that its appender had read.

-- name: decisions_stay
create trigger decisions_stay
    before delete or truncate on reef.decisions
    for each statement execute function reef.refuse_change()

-- name: decisions_stay_always
alter table reef.decisions enable always trigger decisions_stay

-- name: decisions_only_by_append
create trigger decisions_only_by_append
    before insert or update on reef.decisions
    for each statement execute function reef.only_by_append()

-- name: decisions_only_by_append_always
alter table reef.decisions enable always trigger decisions_only_by_append

-- name: drop_append_events
-- Another list of parameters is another function, and there must be one only. A service of the
-- revision before calls the new one without the last parameter.
drop function reef.append_events(
    uuid[], text[], text[], text[], integer[], text[], text[], text[], text[], integer[])

-- name: append_events
-- Takes one array element per append and returns one row per append, in the same order:
--   appended          at_position, at_version, at_time are the new event's
--   duplicate         the id is known with this content; they are the first event's
--   id-conflict       the id is known with other content; at_position is the first event's
--   version-conflict  expected_version is not the stream's; at_version is what it is; or, where
--                     at_position is given, a decisive event stands there that the appender had
--                     not seen when it asked the rule (validated_position)
--   refused           reasons tell why; nothing was written for this append
-- A refused append never affects its neighbours, and later appends of a batch see earlier ones.
--
-- The head row's lock is held to the end of the transaction, so positions appear in commit
-- order: whoever sees position n can see everything before it. The envelope is built here,
-- from the same values that go into the columns, in the key order of RFC 8785; the columns
-- cannot disagree with the bytes. Names are restricted to characters that JSON writes as they
-- are, and data must be one JSON object, so nothing can close the envelope early. Whatever is
-- accepted here, every reader can read past: it may judge the data invalid, but it never stops.
--
-- A null in validated_positions asks for no such check: traffic, and whoever asked no rule.
--
-- A plan made while the table is empty lives for as long as its connection: hence no
-- sequential scans, no JIT and one generic plan.
create function reef.append_events(
    event_ids uuid[],
    scenarios text[],
    streams text[],
    types text[],
    schema_versions integer[],
    actors text[],
    causation_ids text[],
    correlation_ids text[],
    datas text[],
    expected_versions integer[],
    validated_positions bigint[] default null
) returns table (
    outcome text,
    at_position bigint,
    at_version integer,
    at_time text,
    reasons text[]
)
language plpgsql
security definer
set search_path = pg_catalog, reef, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    time_format constant text := 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"';
    item record;
    first_event record;
    first_text text;
    last_position bigint;
    start_position bigint;
    link bytea;
    now_at timestamptz;
    now_text text;
    envelope bytea;
    data_object jsonb;
    next_version integer;
    decided_position bigint;
    sound boolean;
    known_scenario text := '';
    stream_versions integer[] := '{}';
    appended_ids boolean[] := '{}';
begin
    -- Nobody may keep the head locked while thinking.
    perform set_config('idle_in_transaction_session_timeout', '10s', true);
    select position, chain, greatest(clock_timestamp(), recorded_at)
        into strict last_position, link, now_at
        from head
        for update;
    start_position := last_position;
    now_text := to_char(now_at at time zone 'UTC', time_format);
    sound := all_objects(datas);

    for item in
        with given as materialized (
            select u.*, t.stream as type_stream, t.subject, t.ruled, t.decisive,
                    t.newest_schema_version
                from unnest(
                    event_ids, scenarios, streams, types, schema_versions, actors,
                    causation_ids, correlation_ids, datas, expected_versions,
                    validated_positions
                ) with ordinality as u (
                    event_id, scenario, stream, type, schema_version, actor,
                    causation_id, correlation_id, data, expected_version,
                    validated_position, slot
                )
                left join event_types t on t.type = u.type
        ),
        slotted as (
            select
                *,
                min(slot) over (partition by event_id) as id_slot,
                min(slot) over (partition by scenario, stream) as stream_slot
            from given
        )
        select
            slot::integer,
            id_slot::integer,
            stream_slot::integer,
            event_id,
            scenario,
            stream,
            type,
            data,
            expected_version,
            validated_position,
            subject,
            ruled,
            decisive,
            '{"actor":"' || actor
                || '","causation_id":' || coalesce('"' || causation_id || '"', 'null')
                || ',"correlation_id":' || coalesce('"' || correlation_id || '"', 'null')
                || ',"data":' || data
                || ',"event_id":"' || event_id
                || '","position":' as before_position,
            '","scenario":"' || scenario
                || '","schema_version":' || schema_version
                || ',"stream":"' || stream
                || '","type":"' || type
                || '","version":' as before_version,
            case
                -- IS NOT TRUE: a null argument must not pass for want of an answer.
                when (
                    length(scenario) <= 64
                    and scenario ~ '^[A-Za-z0-9_][A-Za-z0-9._-]*$'
                    and length(stream) <= 200
                    and stream ~ '^[a-z]+(/[A-Za-z0-9._:-]+)*$'
                    and length(actor) between 1 and 200
                    and length(coalesce(causation_id, '-')) between 1 and 200
                    and length(coalesce(correlation_id, '-')) between 1 and 200
                    and actor || coalesce(causation_id, '') || coalesce(correlation_id, '')
                        !~ '[^ !#-\[\]-~]'
                    and event_id is not null
                    and schema_version >= 1
                ) is not true then 'malformed-envelope'
                when type_stream is null then 'unknown-type'
                -- The migration that brings a newer form of some data raises this: readers stop
                -- at a version they do not know, so nobody may write one ahead of them.
                when schema_version > newest_schema_version then 'unknown-schema-version'
                when octet_length(data) > 64000 then 'data-too-large'
                when not (sound or as_object(data) is not null) then 'malformed-data'
                -- A lone surrogate is an escape that JSON's grammar allows and readers do not.
                when strpos(data, '\u') > 0 and as_object(data) is null then 'malformed-data'
                when left(data, 1) <> '{' or right(data, 1) <> '}' then 'malformed-data'
                when length(data) - length(translate(data, '[{', '')) > 64 and too_deep(data)
                    then 'malformed-data'
                when (scenario = '_') <> (type_stream like 'trust%') then 'other-scenario'
                when not case right(type_stream, 1)
                    when '/' then
                        starts_with(stream, type_stream)
                        and strpos(substr(stream, length(type_stream) + 1), '/') = 0
                    else stream = type_stream
                end then 'other-stream'
            end as flaw,
            -- Scalar subqueries: EXISTS would let the planner hash the whole table.
            (select true from events e where e.event_id = s.event_id) as known,
            case when slot = stream_slot then (
                select e.version
                    from events e
                    where e.scenario = s.scenario and e.stream = s.stream
                    order by e.version desc
                    limit 1
            ) end as stream_version
        from slotted s
        order by slot
    loop
        at_position := null;
        at_version := null;
        at_time := null;
        reasons := null;
        if item.slot = item.stream_slot then
            stream_versions[item.slot] := coalesce(item.stream_version, 0);
        end if;

        if item.flaw is not null then
            outcome := 'refused';
            reasons := array[item.flaw];
            return next;
            continue;
        end if;

        -- Duplicates come first: a repeated append gets its first result whatever has become
        -- of the stream's version or of the rule in the meantime.
        if item.known or appended_ids[item.id_slot] then
            select position, version, recorded_at, body
                into strict first_event
                from events
                where event_id = item.event_id;
            first_text := to_char(first_event.recorded_at at time zone 'UTC', time_format);
            envelope := convert_to(
                item.before_position || first_event.position || ',"recorded_at":"' || first_text
                    || item.before_version || first_event.version || '}',
                'UTF8');
            at_position := first_event.position;
            if envelope = first_event.body then
                outcome := 'duplicate';
                at_version := first_event.version;
                at_time := first_text;
            else
                outcome := 'id-conflict';
            end if;
            return next;
            continue;
        end if;

        if item.scenario not in ('_', known_scenario) and item.type <> 'scenario.created' then
            perform from events
                where scenario = item.scenario and type = 'scenario.created'
                limit 1;
            if not found then
                outcome := 'refused';
                reasons := '{unknown-scenario}';
                return next;
                continue;
            end if;
            known_scenario := item.scenario;
        end if;

        next_version := stream_versions[item.stream_slot] + 1;
        if item.expected_version <> next_version - 1 then
            outcome := 'version-conflict';
            at_version := next_version - 1;
            return next;
            continue;
        end if;

        -- What was valid at that position may be a violation behind a decision of another stream.
        -- One row per scenario, so this costs two look-ups, and nothing for traffic.
        if item.validated_position is not null then
            select max(position)
                into decided_position
                from decisions
                where scenario in ('_', item.scenario);
            if decided_position > item.validated_position then
                outcome := 'version-conflict';
                at_position := decided_position;
                at_version := next_version - 1;
                return next;
                continue;
            end if;
        end if;

        if item.ruled then
            data_object := as_object(item.data);
            reasons := case
                when data_object is null then '{malformed-data}'
                else rule_reasons(
                    item.type, item.scenario, item.stream, next_version, item.subject,
                    data_object)
            end;
            if cardinality(reasons) > 0 then
                outcome := 'refused';
                return next;
                continue;
            end if;
        end if;

        last_position := last_position + 1;
        envelope := convert_to(
            item.before_position || last_position || ',"recorded_at":"' || now_text
                || item.before_version || next_version || '}',
            'UTF8');
        link := sha256(link || envelope);
        insert into events (
            position, event_id, scenario, stream, version, type, recorded_at, body, chain
        ) values (
            last_position, item.event_id, item.scenario, item.stream, next_version, item.type,
            now_at, envelope, link
        );
        if item.decisive then
            insert into decisions (scenario, position)
                values (item.scenario, last_position)
                on conflict (scenario) do update set position = excluded.position;
        end if;
        stream_versions[item.stream_slot] := next_version;
        appended_ids[item.id_slot] := true;
        outcome := 'appended';
        at_position := last_position;
        at_version := next_version;
        at_time := now_text;
        reasons := null;
        return next;
    end loop;

    if last_position > start_position then
        update head set position = last_position, chain = link, recorded_at = now_at;
        -- At commit NOTIFY takes a lock of the whole cluster: once per batch it costs nothing
        -- that can be measured, once per event half the throughput.
        perform pg_notify('reef_events', last_position::text);
    end if;
end
$$

-- name: grant_append
grant execute on function reef.append_events to reef_service

-- name: revoke_append
revoke execute on function reef.append_events from public
