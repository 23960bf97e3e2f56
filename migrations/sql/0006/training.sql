-- The structure of batches and of their training. An event by hand may pass here and mean nothing
-- to the fold, which reads more. So that both cannot disagree for ever, nothing that only the fold
-- can judge is final here: the end of a claim can always be told under the lease of the last claim,
-- and a claim whose time is over bars no other one. Of two honest services that race, the expected
-- version of the stream decides.
--
-- As in the rule of promotion, every look-up by stream ends in ORDER BY version.

-- name: training_reasons
-- Training is said to go on by whoever holds the batch, and has begun under this lease and line.
create function reef.training_reasons(
    of_type text, of_scenario text, of_stream text, held_by text, since integer, data jsonb
) returns text[]
language plpgsql
as $$
begin
    if held_by is null or held_by is distinct from data ->> 'lease_id' then
        return '{other-lease}';
    end if;
    if of_type = 'training.started' then
        return '{}';
    end if;
    -- A claim is renewed in the middle of a training, so only the lease tells whose it is.
    perform from events
        where scenario = of_scenario
            and stream = of_stream
            and type = 'training.started'
            and version > since
            and event_data(body) ->> 'lease_id' = held_by
            and event_data(body) ->> 'line' = data ->> 'line'
        order by version
        limit 1;
    if not found then
        return '{not-started}';
    end if;
    if of_type = 'training.failed' and (
        coalesce(length(data ->> 'detail'), 2001) > 2000
        or (data ->> 'reason' in (
            'non-finite', 'kl', 'entropy', 'reply-length', 'truncation', 'drift', 'update-norm',
            'error'
        )) is not true
    ) then
        return '{failure}';
    end if;
    return '{}';
end
$$

-- name: batch_forming_reasons
-- A batch is formed once, of turns that were answered and judged.
create function reef.batch_forming_reasons(
    of_scenario text, of_version integer, data jsonb
) returns text[]
language plpgsql
as $$
declare
    sample jsonb;
begin
    if of_version <> 1 then
        return '{known-batch}';
    end if;
    if (jsonb_typeof(data -> 'samples') = 'array') is not true then
        return '{samples}';
    end if;
    for sample in select jsonb_array_elements(data -> 'samples') loop
        if type_at(of_scenario, 'session/' || (sample ->> 'target'), 1)
                is distinct from 'interaction.recorded'
            or not has_event(
                of_scenario, 'turn/' || coalesce(sample ->> 'turn_id', ''), 'turn.judged')
        then
            return '{no-sample}';
        end if;
    end loop;
    return '{}';
end
$$

-- name: batch_reasons
create or replace function reef.batch_reasons(
    of_type text, of_scenario text, of_stream text, of_version integer, data jsonb
) returns text[]
language plpgsql
as $$
declare
    claim record;
    ending record;
    held boolean;
begin
    if of_type = 'batch.formed' then
        return batch_forming_reasons(of_scenario, of_version, data);
    end if;
    if of_version = 1 then
        return '{unknown-batch}';
    end if;
    select
        version,
        event_data(body) ->> 'lease_id' as lease_id,
        clock_timestamp() > recorded_at
            -- What was claimed by hand, before this was looked at, for no number of seconds.
            + make_interval(secs => case
                when event_data(body) ->> 'lease_s' ~ '^[0-9]{1,6}$'
                    then (event_data(body) ->> 'lease_s')::integer
                else 0
            end) as lapsed
        into claim
        from events
        where scenario = of_scenario and stream = of_stream and type = 'batch.claimed'
        order by version desc
        limit 1;
    select version, type, event_data(body) ->> 'reason' as reason
        into ending
        from events
        where scenario = of_scenario
            and stream = of_stream
            and type in ('batch.released', 'training.failed')
        order by version desc
        limit 1;
    held := claim.version is not null and claim.version > coalesce(ending.version, 0);
    case of_type
        when 'batch.claimed' then
            if not held
                and ending.type = 'batch.released'
                and ending.reason in ('stale', 'body-missing', 'abandoned')
            then
                return '{batch-ended}';
            end if;
            if (jsonb_typeof(data -> 'lease_id') = 'string'
                and jsonb_typeof(data -> 'lease_s') = 'number'
                and data ->> 'lease_s' ~ '^[0-9]{1,6}$'
                and (data ->> 'lease_s')::integer between 1 and 604800) is not true
            then
                return '{lease}';
            end if;
            return case
                when held and not claim.lapsed and claim.lease_id <> data ->> 'lease_id'
                    then '{claimed}'
                else '{}'
            end;
        when 'batch.released' then
            if data ->> 'lease_id' is null then
                return case when held and not claim.lapsed then '{other-lease}' else '{}' end;
            end if;
            if claim.lease_id is distinct from data ->> 'lease_id' then
                return '{other-lease}';
            end if;
            if data ->> 'reason' = 'abandoned' then
                perform from events
                    where scenario = of_scenario
                        and stream = of_stream
                        and type = 'training.completed'
                        and event_data(body) ->> 'lease_id' = claim.lease_id
                    order by version
                    limit 1;
                return case when found then '{}' else '{not-trained}' end;
            end if;
            return '{}';
        else
            return training_reasons(
                of_type,
                of_scenario,
                of_stream,
                case when held then claim.lease_id end,
                coalesce(ending.version, 0),
                data
            );
    end case;
end
$$

-- name: operations_rule_reasons
-- The rule of the revision before keeps its text and gets another name.
alter function reef.rule_reasons(text, text, text, integer, text, jsonb)
    rename to operations_rule_reasons

-- name: rule_reasons
create function reef.rule_reasons(
    of_type text,
    of_scenario text,
    of_stream text,
    of_version integer,
    subject text,
    data jsonb
) returns text[]
language plpgsql
as $$
declare
    reasons text[] := operations_rule_reasons(
        of_type, of_scenario, of_stream, of_version, subject, data);
begin
    if cardinality(reasons) > 0 then
        return reasons;
    end if;
    case of_type
        when 'training.started', 'training.step', 'training.completed', 'training.failed' then
            return batch_reasons(of_type, of_scenario, of_stream, of_version, data);
        else
            return reasons;
    end case;
end
$$
