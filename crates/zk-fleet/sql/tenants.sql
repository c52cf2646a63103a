-- Row-level security of zk's tables beside Absurd. A connection with the setting `zk.tenant` sees the runs of that tenant alone, and
-- no schedule; one without sees all. May be applied again.

alter table zk_fleet.runs enable row level security, force row level security;
drop policy if exists zk_tenant on zk_fleet.runs;
create policy zk_tenant on zk_fleet.runs
    using (coalesce(current_setting('zk.tenant', true), '') in ('', tenant));

alter table zk_fleet.schedules enable row level security, force row level security;
drop policy if exists zk_tenant on zk_fleet.schedules;
create policy zk_tenant on zk_fleet.schedules
    using (coalesce(current_setting('zk.tenant', true), '') = '');
