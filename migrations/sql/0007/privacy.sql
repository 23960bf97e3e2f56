-- The structure of erasures: each body once, with a reason, and only a body that the turn names. Whether
-- a gate rests on it as well is the fold's business, which knows all that promotions follow from.
--
-- As in the rule of promotion, every look-up by stream ends in ORDER BY version.

-- name: erasure_reasons
create function reef.erasure_reasons(
    of_scenario text, of_version integer, data jsonb
) returns text[]
language plpgsql
as $$
declare
    digest text := data ->> 'digest';
    call_data jsonb;
begin
    if of_version <> 1 then
        return '{erased}';
    end if;
    if trim(coalesce(data ->> 'reason', '')) = '' then
        return '{no-reason}';
    end if;
    if (digest ~ '^[0-9a-f]{64}$') is not true then
        return '{digest}';
    end if;
    select event_data(body)
        into call_data
        from events
        where scenario = of_scenario
            and stream = 'session/' || coalesce(data ->> 'turn_id', '')
            and version = 1
            and type in ('interaction.recorded', 'interaction.failed')
        order by version;
    if call_data is null then
        return '{unknown-turn}';
    end if;
    if data ->> 'kind' = 'call' and call_data ->> 'body' = digest then
        return '{}';
    end if;
    perform from events
        where scenario = of_scenario
            and stream = 'turn/' || (data ->> 'turn_id')
            and case data ->> 'kind'
                when 'votes' then type = 'turn.judged' and event_data(body) ->> 'votes' = digest
                when 'hint' then type = 'turn.judged' and event_data(body) -> 'hints' ? digest
                when 'feedback' then
                    type = 'report.received' and event_data(body) ->> 'feedback' = digest
                else false
            end
        order by version
        limit 1;
    return case when found then '{}' else '{other-body}' end;
end
$$

-- name: training_rule_reasons
-- The rule of the revision before keeps its text and gets another name.
alter function reef.rule_reasons(text, text, text, integer, text, jsonb)
    rename to training_rule_reasons

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
    reasons text[] := training_rule_reasons(
        of_type, of_scenario, of_stream, of_version, subject, data);
begin
    if cardinality(reasons) > 0 then
        return reasons;
    end if;
    case of_type
        when 'body.erased' then
            return erasure_reasons(of_scenario, of_version, data);
        else
            return reasons;
    end case;
end
$$
