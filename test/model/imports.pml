/*
 * Imported tokens and their aliases (docs/decisions/0023): a primary and its synchronous standby, a node
 * that tokenizes two values, imports of pairs that exclude each other, one forget, one failover, and one
 * rotation with its reseal and retire. Statements hold on one row each, so a statement is one step and the
 * end of its wait for the standby another (vault.pml has the steps between). A command that fails, or loses
 * its server, begins again.
 *
 * As in vault.pml, each NO_... takes one fence out, and Spin has to find the loss (model.test.ts).
 */
#ifndef WAL_LENGTH
#define WAL_LENGTH 1
#endif
/* Rows: the first and second draw of value 0, its imported token, and the first draw of value 1. The
   imported token of value 1 is the first draw of value 0. */
#define FIRST 0
#define SECOND 1
#define FOREIGN 2
#define OTHER 3
#define TOKENS 4
#define DRAWN(v) (v == 0 -> FIRST : OTHER)
/* Pair 0 is of value 0 and FOREIGN, pair 1 of value 1 and FIRST, pair 2 of value 0 and FIRST. */
#define TOKEN_OF(pair) (pair == 0 -> FOREIGN : FIRST)
#define VALUE_OF(pair) (pair == 1 -> 1 : 0)
/* Where the aliases of a value lead. */
#define LEADS_TO(v) (v == 0 -> FOREIGN : FIRST)
#define NONE 7
/* A value fingerprint that no value has. */
#define RANDOM 2

#define ABSENT 0
#define SEALED 1
#define ALIAS 2
#define STUB 3
/* `value`: what it opens to. `fingerprint`: the value that finds it. */
typedef Row { byte state; byte value; byte fingerprint; byte version };
typedef Server { Row row[TOKENS]; bool is_held[TOKENS] };
Server server[2];
#ifdef ALONE
byte current = 1;
#else
byte current = 0;
#endif
byte newest = 1;
bool is_closed = false;
bool is_destroyed = false;
/* Statements that write now. */
byte writers;

mtype = { put_row, message };
chan wal = [WAL_LENGTH] of { mtype, byte, byte, byte, byte, byte };
/* Import 0 and 1, the node, forget. */
#define NODE 2
#define FORGET 3
#define COMMITTERS 4
byte behind[COMMITTERS];
#define CAN_COMMIT (current == 1 || len(wal) < WAL_LENGTH)

#define COMMIT(what, t, s, v, f, k) \
  if \
  :: current == 0 -> wal!what(t, s, v, f, k); behind[me] = len(wal) \
  :: else -> behind[me] = 0 \
  fi

/* ---- What people were told ---- */
/* The token of a value. */
byte acknowledged[2] = NONE;
/* The pair was imported. */
bool is_imported[3];
/* Tokenize gives the imported token of the value. */
bool is_given[2];
/* NONE: nothing yet. Callers were told nothing about it since that must hold. */
byte forgotten = NONE;

#define HERE(t) server[current].row[t]
#define OPENS(t, v) (HERE(t).state == SEALED && HERE(t).value == v && !(is_destroyed && HERE(t).version == 1))
#define KEPT(t, v) (forgotten == t || OPENS(t, v))
inline check() {
  assert(acknowledged[0] == NONE || KEPT(acknowledged[0], 0));
  assert(acknowledged[1] == NONE || KEPT(acknowledged[1], 1));
  assert(!is_imported[0] || KEPT(TOKEN_OF(0), VALUE_OF(0)));
  assert(!is_imported[1] || KEPT(TOKEN_OF(1), VALUE_OF(1)));
  assert(!is_imported[2] || KEPT(TOKEN_OF(2), VALUE_OF(2)));
  /* Of two pairs with one token, one at most. */
  assert(!is_imported[1] || !is_imported[2])
}

#ifndef ALONE
active proctype Replication() {
  mtype what; byte t, s, v, f, k, i;
end:
  do
  :: d_step { current == 0 && len(wal) > 0 ->
      wal?what(t, s, v, f, k);
      if
      :: what == put_row ->
        server[1].row[t].state = s; server[1].row[t].value = v;
        server[1].row[t].fingerprint = f; server[1].row[t].version = k
      :: else
      fi;
      for (i : 0 .. COMMITTERS - 1) {
        if
        :: behind[i] > 0 -> behind[i]--
        :: else
        fi
      }
      what = message; t = 0; s = 0; v = 0; f = 0; k = 0; i = 0 }
  od
}

active proctype Failover() {
  mtype what; byte t, s, v, f, k, i;
  d_step { current == 0 ->
    do
    :: len(wal) > 0 -> wal?what(t, s, v, f, k)
    :: else -> break
    od;
    for (i : 0 .. COMMITTERS - 1) { behind[i] = 0 }
    for (i : 0 .. TOKENS - 1) {
      server[0].is_held[i] = false; server[0].row[i].state = ABSENT; server[0].row[i].value = 0;
      server[0].row[i].fingerprint = 0; server[0].row[i].version = 0
    }
    what = message; t = 0; s = 0; v = 0; f = 0; k = 0; i = 0; current = 1; writers = 0;
    check() }
}
#endif

#ifdef ALONE
#define PAUSE
#else
#define PAUSE }; atomic { true ->
#endif
#ifdef NO_WAIT
#define HAS_WAITED true
#else
#define HAS_WAITED (behind[me] == 0)
#endif
#ifdef NO_DURABLE_LOOK
#define LOOK skip
#define HAS_LOOKED true
#else
#define LOOK COMMIT(message, 0, 0, 0, 0, 0)
#define HAS_LOOKED HAS_WAITED
#endif

/* key_version in (select version from standin.keyring where closed_at is null) */
#define IS_OPEN (version == 2 || !is_closed)
#ifdef NO_FENCE_SUPERSEDE
#define MAY_SUPERSEDE true
#else
#define MAY_SUPERSEDE IS_OPEN
#endif

/* A statement waits for the lock of its row, then writes if it may, else looks: `did` or `seen`. With a
   standby, its end is a step of its own. What its sender makes of the answer belongs to that step. */
#define STATEMENT(may, s, v, f) \
  atomic { !server[current].is_held[token] && CAN_COMMIT -> \
    where = current; did = may; \
    if \
    :: did -> server[where].is_held[token] = true; writers++; COMMIT(put_row, token, s, v, f, version) \
    :: else -> \
      seen.state = HERE(token).state; seen.value = HERE(token).value; \
      seen.fingerprint = HERE(token).fingerprint; seen.version = HERE(token).version; LOOK \
    fi; \
    PAUSE \
    if \
    :: where != current -> ok = false \
    :: where == current && did -> \
      server[where].is_held[token] = false; writers--; ok = HAS_WAITED; \
      server[where].row[token].state = s; server[where].row[token].value = v; \
      server[where].row[token].fingerprint = f; server[where].row[token].version = version; check() \
    :: where == current && !did -> ok = HAS_LOOKED \
    fi; \
    behind[me] = 0; where = 0
#define IS_FREE (HERE(token).state == ABSENT && IS_OPEN)
/* A stub of the own value. */
#define IS_STUB(f) (HERE(token).state == STUB && HERE(token).fingerprint == f && IS_OPEN)

inline forgetSeen() {
  seen.state = 0; seen.value = 0; seen.fingerprint = 0; seen.version = 0; ok = false; did = false
}

#define BEGIN_AGAIN value = 0; token = 0; version = 0; is_led = false; forgetSeen(); goto end
#define START_AGAIN pair = 0; token = 0; version = 0; fingerprint = 0; old = 0; forgetSeen(); goto end

proctype Node(byte me) {
  byte value, token, version, where; bool did, ok, is_led; Row seen;
end:
  atomic {
    if
    :: value = 0
    :: value = 1
    fi;
    version = newest; token = DRAWN(value) };
store:
  STATEMENT(IS_FREE || IS_STUB(value), SEALED, value, value);
    if
    :: !ok || (!did && seen.state == ABSENT) -> BEGIN_AGAIN
    :: ok && did -> goto ok_
    :: else
    fi;
    if
    :: seen.fingerprint != value -> assert(token == FIRST); token = SECOND; forgetSeen(); goto store
    :: seen.fingerprint == value && seen.state == ALIAS ->
      assert(!is_led); is_led = true; token = LEADS_TO(value); forgetSeen(); goto store
    :: seen.fingerprint == value && seen.state == SEALED -> goto ok_
    :: seen.fingerprint == value && seen.state == STUB -> BEGIN_AGAIN
    fi;
ok_:
    assert(acknowledged[value] == NONE || acknowledged[value] == token);
    assert(!is_given[value] || token == LEADS_TO(value));
    acknowledged[value] = token; check();
    BEGIN_AGAIN
  }
}

#ifdef NO_SUPERSEDE_READ
#define IS_IN_WAY (HERE(token).state != ABSENT)
#else
#define IS_IN_WAY (HERE(token).state == ALIAS && HERE(token).version == old)
#endif

/* standin import */
proctype Import(byte me) {
  byte pair, token, version, where, fingerprint, old; bool did, ok; Row seen;
end:
  atomic {
    if
    :: pair = 0
    :: pair = 1
    :: pair = 2
    fi;
    fingerprint = VALUE_OF(pair); version = newest; token = TOKEN_OF(pair) };
place:
  STATEMENT(IS_FREE || IS_STUB(fingerprint), SEALED, VALUE_OF(pair), fingerprint);
    if
    :: !ok || (!did && seen.state == ABSENT) -> START_AGAIN
    :: ok && did -> goto lead
    :: ok && !did && seen.state == SEALED && seen.value == VALUE_OF(pair) -> goto lead
    :: ok && !did && seen.state == ALIAS -> goto move
    /* Refused: it stands for another value. */
    :: else -> START_AGAIN
    fi;
move:
    /* An alias is in the way. First its value must be known: */
    assert(token == FIRST); old = seen.version; forgetSeen(); token = FOREIGN };
  STATEMENT(false, 0, 0, 0);
    if
    :: !ok || seen.state != SEALED || seen.fingerprint != 0 -> START_AGAIN
    :: else
    fi;
    forgetSeen();
#ifdef NO_MOVE_ORDER
    goto supersede;
#endif
    token = SECOND };
  /* ... then an alias at its next draw leads on, ... */
  STATEMENT(IS_FREE, ALIAS, 0, 0);
    if
    :: ok && (did || (seen.state == ALIAS && seen.fingerprint == 0)) -> forgetSeen()
    :: else -> START_AGAIN
    fi;
supersede:
    token = FIRST;
    if
    :: VALUE_OF(pair) == 0 -> fingerprint = RANDOM
    :: else
    fi };
  /* ... then the pair takes the place of the alias that was read. */
  STATEMENT(IS_IN_WAY && MAY_SUPERSEDE, SEALED, VALUE_OF(pair), fingerprint);
    if
    :: ok && did -> goto lead
    :: ok && !did && seen.state == SEALED && seen.value == VALUE_OF(pair) -> goto lead
    :: else -> START_AGAIN
    fi;
lead:
    /* Tokenize finds the pair by the fingerprint of its value, and only where it would draw. */
    if
    :: fingerprint == RANDOM || (!did && seen.fingerprint != fingerprint) || pair == 2 -> goto told
    :: else
    fi;
    forgetSeen(); token = DRAWN(VALUE_OF(pair)) };
alias:
  STATEMENT(IS_FREE, ALIAS, VALUE_OF(pair), VALUE_OF(pair));
    if
    :: !ok || (!did && seen.state == ABSENT) -> START_AGAIN
    :: ok && !did && seen.state != ABSENT && seen.fingerprint != VALUE_OF(pair) ->
      assert(token == FIRST); token = SECOND; forgetSeen(); goto alias
    :: else
    fi;
    if
    :: did || seen.state == ALIAS -> is_given[VALUE_OF(pair)] = true
    :: else
    fi;
told:
    is_imported[pair] = true; check();
    START_AGAIN
  }
}

/* standin forget of any token, also of one that an alias has or nobody has */
proctype Forget(byte me) {
  byte token, where, version, on; bool did, ok; Row seen;
  atomic {
    if
    :: token = FIRST
    :: token = SECOND
    :: token = FOREIGN
    :: token = OTHER
    fi;
    /* The first statement finds out what aliases are. */
    if
#ifndef NO_ALIAS_KEPT
#ifndef NO_ABSENT_KEPT
    :: HERE(token).state == ABSENT -> goto unknown
#endif
    :: HERE(token).state == ALIAS -> goto unknown
#endif
    :: else
    fi;
    forgotten = token; on = current };
  /* A failover between its statements is left out. */
  STATEMENT(on == current && HERE(token).state != ABSENT, STUB, HERE(token).value, HERE(token).fingerprint) };
unknown:
  skip
}

#ifdef WITH_KEYS
/* standin keyring rotate, reseal and retire */
active proctype Keys() {
  byte i;
  newest = 2;
  do
  :: i < TOKENS -> atomic { !server[current].is_held[i] ->
      if
      :: HERE(i).version == 1 && (HERE(i).state == SEALED || HERE(i).state == ALIAS) -> HERE(i).version = 2
      :: else
      fi;
      i++ }
  :: else -> break
  od;
  is_closed = true;
  atomic { writers == 0 -> i = 0;
    do
    :: i < TOKENS && !(HERE(i).version == 1 && (HERE(i).state == SEALED || HERE(i).state == ALIAS)) -> i++
    :: else -> break
    od;
    if
    :: i == TOKENS -> is_destroyed = true; check()
    :: else
    fi }
}
#endif

init {
  atomic {
    run Import(0); run Node(NODE); run Forget(FORGET);
#ifdef TWO_IMPORTS
    run Import(1)
#else
    skip
#endif
  }
}
