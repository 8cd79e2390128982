/*
 * What a pause can do to the vault: two nodes, two database connections, a primary and its
 * synchronous standby. Every statement goes step by step, and between two steps anything may
 * happen: a node gives up, a connection stands still for ever, the primary dies, an operator
 * rotates, reseals, retires, forgets. There are no clocks: a node may take any key version that
 * ever was the newest for the newest, so nothing here rests on a lease.
 *
 * Spin explores all of it (model.test.ts). Each NO_... takes one fence out, and Spin then has to
 * find the loss. docs/architecture.md says what the model has and what it leaves out.
 */
#ifdef DRAWS
/* Both values draw token 0 first, then a token of their own. */
#define TOKENS 3
#define TOKEN(value, draw) (draw == 0 -> 0 : 1 + value)
#else
#define TOKENS 2
#define TOKEN(value, draw) value
#endif
#ifndef VERSIONS
#define VERSIONS 2
#endif
#define CONNECTIONS 2
#define NODES 2
/* One for each node, and one for a statement that its node has given up: which of two equal
   connections has which statement makes no state of its own. */
#define ABANDONED NODES
#define SLOTS (NODES + 1)
#define NONE 7
/* Commits that the standby lacks at once: the next one waits for it. */
#ifndef WAL_LENGTH
#define WAL_LENGTH 1
#endif

/* What a row is. A stub had a value that was forgotten. */
#define ABSENT 0
#define SEALED 1
#define STUB 2
#define DAMAGED 3

/* Server 0 is the first primary, server 1 its standby. */
typedef Row { byte state; byte value; byte version };
typedef Server {
  Row row[TOKENS];
  /* A row that is written and not yet committed: others wait for it. */
  bool is_held[TOKENS];
  byte newest = 1;
  bool closed[VERSIONS + 1];
  bool destroyed[VERSIONS + 1]
};
Server server[2];
/* The server that has not been superseded. */
#ifdef ALONE
byte current = 1;
#else
byte current = 0;
#endif
/* The first primary runs again beside the second, without a standby. */
bool old_is_back = false;

/* ---- Commits on their way to the standby, in order ---- */
mtype = { put_row, new_key, close_key, destroy_key, message };
chan wal = [WAL_LENGTH] of { mtype, byte, byte, byte, byte };
/* How many commits, up to its own, the standby lacks: of each slot, then of each operator. */
#define RESEAL SLOTS
#define KEYS (SLOTS + 1)
#define FORGET (SLOTS + 2)
#define COMMITTERS (SLOTS + 3)
byte behind[COMMITTERS];

/* Alone, or with room in the channel. */
#define CAN_COMMIT(on) (on == 1 || current == 1 || len(wal) < WAL_LENGTH)

inline commit(who, on, what, a, b, c, d) {
  if
  :: on == 0 && current == 0 -> wal!what(a, b, c, d); behind[who] = len(wal)
  :: else -> behind[who] = 0
  fi
}

#ifndef ALONE
active proctype Replication() {
  mtype what; byte a, b, c, d, i;
end:
  do
  :: d_step { current == 0 && len(wal) > 0 ->
      wal?what(a, b, c, d);
      if
      :: what == put_row ->
        server[1].row[a].state = b; server[1].row[a].value = c; server[1].row[a].version = d
      :: what == new_key -> server[1].newest = a
      :: what == close_key -> server[1].closed[a] = true
      :: what == destroy_key -> server[1].destroyed[a] = true
      :: what == message
      fi;
      i = 0;
      do
      :: i < COMMITTERS -> if :: behind[i] > 0 -> behind[i]-- :: else fi; i++
      :: else -> break
      od;
      what = message; a = 0; b = 0; c = 0; d = 0; i = 0
    }
  od
}
#endif

/* A failover may lose the newest key. A rotation then makes another key of the same number: key 3,
   of number 2. */
#ifdef ALONE
#define NUMBER(key) key
#define NEW_KEY (server[where].newest + 1)
#else
#define NUMBER(key) (key == 3 -> 2 : key)
#define NEW_KEY (where == 0 -> 2 : 3)
#endif
#define HAS_KEY(on, key) (!server[on].destroyed[NUMBER(key)] && (key == server[on].newest || \
  NUMBER(key) < NUMBER(server[on].newest)))

/* ---- What callers were told ---- */
/* The token of each value. */
byte acknowledged[2] = NONE;
/* It was acknowledged, and nobody has begun to forget it since. */
bool must_open[2];
/* It was forgotten, and nobody has asked for it since. */
bool must_be_gone[2];
/* No node has asked for it since the forget that is under way looked. */
bool is_unasked[2];
/* Statements of nodes with this value, also abandoned ones. */
byte asked[2];
bool is_forgetting[2];

#define ROW_OF(v) server[current].row[acknowledged[v]]
#define OPENS(r) (r.state == SEALED && HAS_KEY(current, r.version))

/* In Never: after every step. */
#define OPENS_TO_ITS_VALUE(v) (!must_open[v] || (OPENS(ROW_OF(v)) && ROW_OF(v).value == v))
#define NEVER_ANOTHER(v) (acknowledged[v] == NONE || ROW_OF(v).state != SEALED || ROW_OF(v).value == v)
#define STAYS_GONE(v) (!must_be_gone[v] || ROW_OF(v).state != SEALED)

inline check(v) {
  assert(OPENS_TO_ITS_VALUE(v)); assert(NEVER_ANOTHER(v)); assert(STAYS_GONE(v))
}
inline checkAll() { check(0); check(1) }

inline acknowledge(v, t, is_overtaken_by_forget) {
  /* One token a value. */
  assert(acknowledged[v] == NONE || acknowledged[v] == t);
  acknowledged[v] = t;
  if
  :: !is_overtaken_by_forget -> must_open[v] = true
  :: else
  fi;
  check(v)
}

/* ---- Database connections: one statement each, in the steps of PostgreSQL ---- */
mtype = { insert, look, keep, mend };
mtype = { idle, sent, unlocked, checked, waiting, done };
mtype = { inserted, found, refused, looked, failed };
typedef Slot {
  mtype state = idle; mtype statement = insert; mtype answer = failed;
  byte where; byte value; byte token; byte version;
  /* Of `mend`: the row that it replaces. Of a look-up: the row that it saw. */
  Row seen;
  /* Since it was sent, somebody has begun to forget the value, or has damaged its row. */
  bool is_overtaken;
  /* A retire waits for the end of this statement. */
  bool is_awaited
};
Slot slot[SLOTS];

#define S slot[me]
#define THERE server[S.where].row[S.token]
#define IS_HELD server[S.where].is_held[S.token]

/* key_version in (select version from standin.keyring where closed_at is null), in each statement that writes. */
#if defined(NO_FENCE_INSERT)
#define UNFENCED insert
#elif defined(NO_FENCE_KEEP)
#define UNFENCED keep
#elif defined(NO_FENCE_MEND)
#define UNFENCED mend
#else
#define UNFENCED look
#endif
#define MAY_WRITE (S.statement == look || S.statement == UNFENCED || \
  (NUMBER(S.version) <= NUMBER(server[S.where].newest) && \
  !server[S.where].closed[NUMBER(S.version)] && !server[S.where].destroyed[NUMBER(S.version)]))
#define MATCHES ( \
  (S.statement == insert && THERE.state == ABSENT) || \
  (S.statement == keep && THERE.state == STUB && THERE.value == S.value) || \
  (S.statement == mend && THERE.state == S.seen.state && THERE.version == S.seen.version && THERE.value == S.value))

inline freeSlot(s) {
  asked[slot[s].value]--; behind[s] = 0;
  slot[s].state = idle; slot[s].statement = insert; slot[s].answer = failed; slot[s].where = 0;
  slot[s].value = 0; slot[s].token = 0; slot[s].version = 0;
  slot[s].seen.state = 0; slot[s].seen.value = 0; slot[s].seen.version = 0; slot[s].is_awaited = false;
  slot[s].is_overtaken = false
}

inline reply(what) {
  if
  :: me == ABANDONED -> freeSlot(me)
  :: else ->
    S.answer = what; S.state = done; S.is_awaited = false; S.version = 0; S.token = 0;
    S.statement = insert; S.where = 0;
    if
    :: what != looked -> S.seen.state = 0; S.seen.value = 0; S.seen.version = 0
    :: else
    fi
  fi
}

inline makeVisible() {
  THERE.state = SEALED; THERE.value = S.value; THERE.version = S.version; IS_HELD = false
}

proctype Connection(byte me) {
end:
  do
#ifdef NO_LOCK_FIRST
  /* As under repeatable read: the snapshot is older than the lock of the table. */
  :: d_step { S.state == sent && MAY_WRITE -> S.state = unlocked }
  :: d_step { S.state == sent && !MAY_WRITE -> reply(refused) }
  :: d_step { S.state == unlocked -> S.state = checked }
#else
  /* Parse takes the lock of the table, then comes the snapshot: nothing can come between them that
     a snapshot after the lock does not see, so they are one step. */
  :: d_step { S.state == sent && MAY_WRITE -> S.state = checked }
  :: d_step { S.state == sent && !MAY_WRITE -> reply(refused) }
#endif
  /* A row that another statement has written and not yet committed is waited for. */
  :: d_step { S.state == checked && S.statement != look && !IS_HELD && CAN_COMMIT(S.where) ->
      if
      :: MATCHES ->
        IS_HELD = true;
        commit(me, S.where, put_row, S.token, SEALED, S.value, S.version);
        S.state = waiting;
        if
        :: S.where == 1 -> makeVisible(); reply(inserted); checkAll()
        :: else
        fi
      :: else -> reply(found)
      fi }
  /* The message of the look-up makes its commit wait for all that it saw. */
  :: d_step { S.state == checked && S.statement == look && CAN_COMMIT(S.where) ->
      S.seen.state = THERE.state; S.seen.value = THERE.value; S.seen.version = THERE.version;
#ifndef NO_DURABLE_LOOK
      commit(me, S.where, message, 0, 0, 0, 0);
#endif
      S.state = waiting;
      if
      :: S.where == 1 -> reply(looked)
      :: else
      fi }
  :: d_step { S.state == waiting && behind[me] == 0 ->
      if
      :: S.statement == look -> reply(looked)
      :: else -> makeVisible(); reply(inserted); checkAll()
      fi }
  /* Cancelled or terminated while it waits for the standby: committed here all the same. */
  :: d_step { S.state == waiting && behind[me] > 0 ->
      if
      :: S.statement == look
      :: else -> makeVisible(); checkAll()
      fi;
      behind[me] = 0;
#ifdef NO_WAIT
      reply(inserted)
#else
      reply(failed)
#endif
    }
  od
}


/* ---- Nodes ---- */
/* The keys that a node has read. Each may seal with any of them. */
bool is_known[4];
/* A node takes a key only when the standby has it. */
#ifdef NO_DURABLE_KEY
#define MAY_TAKE true
#else
#define MAY_TAKE (server[1].newest == server[current].newest)
#endif
#ifdef NO_TIMELINE
/* The latest server that a node has seen as primary. With the fence, none goes back. */
byte latest[NODES];
#endif

inline choose() {
  if
  :: current == 0 -> where = 0
#ifdef NO_TIMELINE
  :: current == 1 -> where = 1; latest[me] = 1
  /* The new primary is silent, and the old one answers. */
  :: current == 1 && old_is_back -> where = 0
#else
  :: current == 1 -> where = 1
#endif
  fi
}

inline chooseKey() {
  if
  :: version = 1
  :: is_known[2] -> version = 2
  :: is_known[3] -> version = 3
  fi
}

#define IS_BUSY(s) (slot[s].state != idle)
/* Sends one statement, if a connection is free. */
inline send(what) {
  if
  :: IS_BUSY(0) + IS_BUSY(1) + IS_BUSY(ABANDONED) >= CONNECTIONS -> goto quiet
  :: else
  fi;
  choose();
  if
  :: what == look
  :: what != look -> chooseKey()
  fi;
  d_step {
    asked[value]++; must_be_gone[value] = false; is_unasked[value] = false;
    slot[me].statement = what; slot[me].where = where; slot[me].value = value;
    slot[me].token = TOKEN(value, draw); slot[me].version = version;
    if
    :: what == mend ->
      slot[me].seen.state = row.state; slot[me].seen.value = row.value;
      slot[me].seen.version = row.version
    :: else
    fi;
    row.state = 0; row.value = 0; row.version = 0; heard = failed; where = 0; version = 0;
    slot[me].is_overtaken = is_forgetting[value];
    slot[me].state = sent
  }
}

/* One statement at a time goes on that nobody waits for. */
#define MAY_GIVE_UP (!IS_BUSY(ABANDONED))

/* The statement goes on, without its node. */
inline abandon() {
  slot[ABANDONED].state = slot[me].state; slot[ABANDONED].statement = slot[me].statement;
  slot[ABANDONED].where = slot[me].where; slot[ABANDONED].value = slot[me].value;
  slot[ABANDONED].token = slot[me].token; slot[ABANDONED].version = slot[me].version;
  slot[ABANDONED].seen.state = slot[me].seen.state;
  slot[ABANDONED].seen.value = slot[me].seen.value;
  slot[ABANDONED].seen.version = slot[me].seen.version;
  slot[ABANDONED].is_overtaken = slot[me].is_overtaken;
  slot[ABANDONED].is_awaited = slot[me].is_awaited;
  asked[slot[me].value]++; behind[ABANDONED] = behind[me];
  freeSlot(me)
}

/* Its answer. The node may give up on it, or die, at any time. */
inline hear(what) {
  if
  :: d_step { slot[me].state == done ->
      heard = slot[me].answer;
      row.state = slot[me].seen.state; row.value = slot[me].seen.value;
      row.version = slot[me].seen.version;
      is_overtaken = is_overtaken || slot[me].is_overtaken;
      freeSlot(me) }
  :: slot[me].state != done && MAY_GIVE_UP ->
    if
    :: what == look -> freeSlot(me)
    :: else -> abandon()
    fi;
    goto quiet
  fi
}

#ifdef NO_COLLISION
#define IS_OWN true
#else
#define IS_OWN (row.value == value)
#endif

proctype Node(byte me) {
  byte value, draw, version, where; mtype heard = failed; Row row; bool is_overtaken;
quiet:
  atomic {
    value = 0; draw = 0; version = 0; where = 0; heard = failed; is_overtaken = false;
    row.state = 0; row.value = 0; row.version = 0
  };
end:
  atomic {
    if
    :: MAY_TAKE && !is_known[server[current].newest] ->
      is_known[server[current].newest] = true; goto quiet
    :: value = 0
    /* By symmetry one node with both values is enough. */
    :: me == 0 -> value = 1
    fi;
    /* A value that was stored a moment ago is looked up first. */
    if
    :: goto lookUp
    :: goto write
    fi;
write:
    send(insert) };
  atomic {
    hear(insert);
    if
    :: heard == inserted -> goto ok
    :: heard == found -> goto lookUp
    :: else -> goto quiet
    fi;
lookUp:
    send(look) };
  atomic {
    hear(look);
    if
    :: heard != looked -> goto quiet
    :: heard == looked && row.state == ABSENT -> goto write
    :: heard == looked && row.state != ABSENT && !IS_OWN ->
      assert(draw == 0); draw = 1; goto write
    :: heard == looked && row.state != ABSENT && IS_OWN ->
      if
      :: row.state == STUB -> goto revive
      :: row.state == SEALED -> goto ok
#ifdef NO_OPENING
      :: row.state == DAMAGED -> goto ok
#else
      :: row.state == DAMAGED -> goto replace
#endif
      fi
    fi;
revive:
    send(keep) };
  atomic {
    hear(keep);
    goto written;
replace:
    send(mend) };
  atomic {
    hear(mend);
written:
    if
    :: heard == inserted -> goto ok
    :: heard == found -> goto lookUp
    :: else -> goto quiet
    fi;
ok:
    acknowledge(value, TOKEN(value, draw), is_overtaken);
    goto quiet
  }
}

inline overtake(v) {
  i = 0;
  do
  :: i < SLOTS -> if :: slot[i].state != idle && slot[i].value == v -> slot[i].is_overtaken = true :: else fi; i++
  :: else -> i = 0; break
  od
}

/* ---- Operators ---- */
/* The advisory lock of the vault: one alone, or any number of reseal batches. */
bool is_locked;
byte sharers;

/* Between a commit and its end: it waits for the standby, may be cancelled, or its server dies. */
#ifdef ALONE
#define PAUSE
#else
#define PAUSE }; atomic { true ->
#endif

#ifndef WITHOUT_KEYS
active proctype Keys() {
  byte where, version, i;
end:
  do
  /* standin keyring rotate */
  :: atomic { NUMBER(server[current].newest) < VERSIONS && !is_locked && sharers == 0 && CAN_COMMIT(current) ->
      where = current; version = NEW_KEY; is_locked = true;
      commit(KEYS, where, new_key, version, 0, 0, 0);
      PAUSE
      if
      :: where == current -> behind[KEYS] = 0; is_locked = false; server[where].newest = version
      :: else
      fi;
      where = 0; version = 0 }
  /* standin keyring retire: close the version, ... */
  :: atomic { server[current].newest > 1 && !is_locked && sharers == 0 && CAN_COMMIT(current) ->
      where = current;
      if
      :: version = 1
      :: NUMBER(server[where].newest) > 2 -> version = 2
      fi;
      if
      :: server[where].destroyed[version] -> goto retired
      :: else
      fi;
      is_locked = true;
      commit(KEYS, where, close_key, version, 0, 0, 0);
      PAUSE
      if
      :: where != current -> goto retired
      :: where == current && behind[KEYS] > 0 ->
        behind[KEYS] = 0; is_locked = false; server[where].closed[version] = true; goto retired
      :: where == current && behind[KEYS] == 0 ->
        is_locked = false; server[where].closed[version] = true
      fi;
#ifndef NO_RETIRE_WAIT
      do
      :: i < SLOTS ->
        slot[i].is_awaited = slot[i].where == where && slot[i].statement != look &&
          (slot[i].state == checked || slot[i].state == waiting);
        i++
      :: else -> i = 0; break
      od;
#endif
      /* ... wait for the writes under way, ... */
      (where != current || (!slot[0].is_awaited && !slot[1].is_awaited && !slot[ABANDONED].is_awaited &&
        !is_locked && sharers == 0 && CAN_COMMIT(where)));
      if
      :: where != current -> goto retired
      :: else
      fi;
      /* ... and destroy it if no record needs it. */
#ifndef NO_COUNT
      do
      :: i < TOKENS && !(server[where].row[i].state == SEALED && server[where].row[i].version == version) -> i++
      :: else -> break
      od;
      if
      :: i < TOKENS -> goto retired
      :: else
      fi;
#endif
      is_locked = true;
      commit(KEYS, where, destroy_key, version, 0, 0, 0);
      PAUSE
      if
      :: where == current ->
        behind[KEYS] = 0; is_locked = false; server[where].destroyed[version] = true; checkAll()
      :: else
      fi;
retired:
      where = 0; version = 0; i = 0 }
  od
}

#ifdef NO_OLD_SEALED
#define IS_AS_READ (server[where].row[token].state != ABSENT)
#else
#define IS_AS_READ (server[where].row[token].state == old.state && \
  server[where].row[token].version == old.version)
#endif

#ifdef NO_RESEAL_NEWEST
#define RESEALS_ANYHOW
#else
#define RESEALS_ANYHOW || server[where].newest != version
#endif

/* standin keyring reseal */
active proctype Reseal() {
  byte where, token, version; Row old;
end:
  do
  :: atomic {
      where = current; version = server[where].newest;
      if
      :: token = 0
      :: token = 1
      :: TOKENS > 2 -> token = 2
      fi;
      if
      :: server[where].row[token].state == SEALED && NUMBER(server[where].row[token].version) < NUMBER(version) ->
        old.state = SEALED; old.value = server[where].row[token].value;
        old.version = server[where].row[token].version
      :: else -> goto resealed
      fi };
    /* It is opened and sealed again in the command. Then, in one transaction: */
    atomic { !is_locked || where != current ->
      if
      :: where != current RESEALS_ANYHOW -> goto resealed
      :: else
      fi;
#ifndef NO_RESEAL_LOCK
      sharers++
#endif
    };
    atomic { where != current || (!server[where].is_held[token] && CAN_COMMIT(where)) ->
      if
      :: where == current && IS_AS_READ ->
        server[where].is_held[token] = true;
        commit(RESEAL, where, put_row, token, SEALED, old.value, version)
      :: where == current && !IS_AS_READ -> sharers = 0; goto resealed
      :: where != current -> goto resealed
      fi;
      PAUSE
      if
      :: where == current ->
        behind[RESEAL] = 0; server[where].is_held[token] = false;
        server[where].row[token].state = SEALED; server[where].row[token].value = old.value;
        server[where].row[token].version = version; sharers = 0; checkAll()
      :: else
      fi;
resealed:
      where = 0; token = 0; version = 0; old.state = 0; old.value = 0; old.version = 0 }
  od
}
#endif

#ifdef NO_STUB
#define GONE ABSENT
#else
#define GONE STUB
#endif

#ifdef NO_FORGET_FOUND
#define FORGETS && !is_gone
#else
#define FORGETS
#endif
#ifdef NO_FORGET_WAIT
#define IS_FORGOTTEN true
#else
#define IS_FORGOTTEN (behind[FORGET] == 0)
#endif

#ifndef WITHOUT_FORGET
/* standin forget */
active proctype Forget() {
  byte where, value, token, i; bool has_removed;
#ifdef NO_FORGET_FOUND
  bool is_gone;
#endif
end:
  do
  :: atomic {
      if
      :: acknowledged[0] != NONE -> value = 0
#ifdef FORGETS_BOTH
      :: acknowledged[1] != NONE -> value = 1
#endif
      fi;
      where = current; token = acknowledged[value];
#ifdef NO_FORGET_FOUND
      is_gone = server[where].row[token].state == STUB;
#endif
      is_forgetting[value] = true; must_open[value] = false; overtake(value) };
    /* Of every row that its look has found, forgotten or not: */
    atomic { where != current || (!server[where].is_held[token] && CAN_COMMIT(where)) ->
      is_unasked[value] = asked[value] == 0;
      if
      :: where != current -> goto forgotten
      :: where == current FORGETS && (server[where].row[token].state == SEALED ||
          server[where].row[token].state == DAMAGED) ->
        has_removed = true; server[where].is_held[token] = true;
        commit(FORGET, where, put_row, token, GONE, server[where].row[token].value, 0)
      :: else ->
        /* Nothing is left to write: the answer rests on what is there. */
#ifndef NO_DURABLE_FORGET
        commit(FORGET, where, message, 0, 0, 0, 0)
#endif
      fi;
      PAUSE
      if
      :: where != current -> goto forgotten
      :: else
      fi;
      if
      :: has_removed ->
        server[where].is_held[token] = false;
        server[where].row[token].state = GONE; server[where].row[token].version = 0
      :: else
      fi;
      if
      :: IS_FORGOTTEN && is_unasked[value] -> must_be_gone[value] = true
      :: else
      fi;
      behind[FORGET] = 0; checkAll();
forgotten:
      is_forgetting[value] = false; is_unasked[value] = false; where = 0; value = 0; token = 0; i = 0; has_removed = false }
  od
}
#endif

/* ---- What else happens, once each ---- */
#ifndef ALONE
active proctype Failover() {
  byte i, value; mtype what; byte a, b, c, d;
  d_step { current == 0 ->
    do
    :: len(wal) > 0 -> wal?what(a, b, c, d)
    :: else -> break
    od;
    do
    :: i < SLOTS ->
      if
      :: slot[i].state == waiting && slot[i].statement != look ->
        /* In its log, and so in the table when it runs again. */
        server[0].row[slot[i].token].state = SEALED;
        server[0].row[slot[i].token].value = slot[i].value;
        server[0].row[slot[i].token].version = slot[i].version
      :: else
      fi;
      if
      :: slot[i].state != idle && i == ABANDONED -> freeSlot(i)
      :: slot[i].state != idle && i != ABANDONED && slot[i].state != done ->
        value = slot[i].value; freeSlot(i); asked[value]++;
        slot[i].value = value; slot[i].state = done
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < COMMITTERS -> behind[i] = 0; i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < TOKENS -> server[0].is_held[i] = false; i++
    :: else -> break
    od;
#ifndef NO_TIMELINE
    /* No node asks it any more, so what it has makes no state of its own. */
    i = 0;
    do
    :: i < TOKENS ->
      server[0].row[i].state = ABSENT; server[0].row[i].value = 0; server[0].row[i].version = 0; i++
    :: else -> break
    od;
    i = 0;
    do
    :: i <= VERSIONS -> server[0].closed[i] = false; server[0].destroyed[i] = false; i++
    :: else -> break
    od;
    server[0].newest = 1;
#endif
    i = 0; value = 0; what = message; a = 0; b = 0; c = 0; d = 0;
    is_locked = false; sharers = 0; current = 1;
    checkAll()
  };
#ifdef NO_TIMELINE
end:
  /* As the documents demand: not before every node has seen the new primary. */
  d_step { latest[0] == 1 && latest[1] == 1 -> old_is_back = true }
#endif
}
#endif

#ifndef WITHOUT_DAMAGE
active proctype Damage() {
  byte i;
end:
  d_step { server[current].row[0].state == SEALED && !server[current].is_held[0] && CAN_COMMIT(current) ->
    if
    :: current == 0 -> wal!put_row(0, DAMAGED, server[0].row[0].value, server[0].row[0].version)
    :: else
    fi;
    server[current].row[0].state = DAMAGED;
    if
    :: acknowledged[0] == 0 -> must_open[0] = false
    :: else
    fi;
    if
    :: acknowledged[1] == 0 -> must_open[1] = false
    :: else
    fi;
    overtake(0); overtake(1)
  }
}
#endif

init {
  byte i;
  atomic {
    do
    :: i < SLOTS -> run Connection(i); i++
    :: else -> break
    od;
    run Node(0);
#ifndef ONE_NODE
    run Node(1)
#elif defined(NO_TIMELINE)
    latest[1] = 1
#else
    skip
#endif
  }
}
