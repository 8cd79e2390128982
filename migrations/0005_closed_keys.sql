-- Since when no record may be sealed with this key version any more: `keyring retire` sets it before it waits for the
-- writers that began earlier, and only then destroys the key. Every statement that writes `sealed` reads this column.
-- Programs of before do not, so run `keyring retire` only when the last of them has ended.
alter table standin.keyring add column closed_at timestamptz;
