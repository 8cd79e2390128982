/*
 * What a failover can do to commands that operators repeat: a primary and its synchronous standby,
 * an operator who changes the KEK, two who apply policies, a node that follows the policy. A wait for
 * the standby may be cancelled at any time. What is written is then visible on the primary alone, the
 * command fails, and its operator runs it again: it finds its work done already.
 *
 * As in vault.pml, each NO_... takes one fence out, and Spin has to find the loss (model.test.ts).
 */
#ifndef WAL_LENGTH
#define WAL_LENGTH 2
#endif
#define VERSIONS 3
#define OLD 0
#define NEW 1

/* Server 0 is the first primary, server 1 its standby. Document 0: the version does not exist. */
typedef Server { byte kek = OLD; byte newest = 0; byte document[VERSIONS + 1] };
Server server[2];
byte current = 0;

/* ---- Commits on their way to the standby, in order ---- */
mtype = { put_kek, put_policy, message };
chan wal = [WAL_LENGTH] of { mtype, byte, byte };
/* Operators with the documents 1 and 2, the operator of the KEK, the node. */
#define KEYS 0
#define NODE 3
#define COMMITTERS 4
/* How many commits, up to its own, the standby lacks. */
byte behind[COMMITTERS];
#define CAN_COMMIT (current == 1 || len(wal) < WAL_LENGTH)

inline commit(who, what, a, b) {
  if
  :: current == 0 -> wal!what(a, b); behind[who] = len(wal)
  :: else -> behind[who] = 0
  fi
}

/* ---- What people were told, and did ---- */
/* `keyring rewrap` ended with 0, so the old KEK was destroyed. */
bool is_old_destroyed = false;
/* The version as which a document was applied; 0: nobody was told. */
byte applied[3];
/* The policy by which the node answers. */
byte in_force = 0;
byte in_force_document = 0;

inline check() {
#ifndef ASYNC
  assert(!is_old_destroyed || server[current].kek == NEW);
  assert(applied[1] == 0 || server[current].document[applied[1]] == 1);
  assert(applied[2] == 0 || server[current].document[applied[2]] == 2);
  assert(in_force == 0 || server[current].document[in_force] == in_force_document)
#else
  skip
#endif
}

active proctype Replication() {
  mtype what; byte a, b, i;
end:
  do
  :: d_step { current == 0 && len(wal) > 0 ->
      wal?what(a, b);
      if
      :: what == put_kek -> server[1].kek = a
      :: what == put_policy -> server[1].newest = a; server[1].document[a] = b
      :: what == message
      fi;
      for (i : 0 .. COMMITTERS - 1) {
        if
        :: behind[i] > 0 -> behind[i]--
        :: else
        fi
      }
      what = message; a = 0; b = 0; i = 0 }
  od
}

/* The end of a wait: the standby has it, or the wait was cancelled, or the server is gone. */
#if defined(NO_WAIT) || defined(ASYNC)
#define IS_DONE(who) (where == current)
#else
#define IS_DONE(who) (where == current && behind[who] == 0)
#endif

/* Advisory locks, which a transaction holds until its wait ends. */
bool is_locked[2];

/* standin keyring rewrap, until it ends with 0 */
active proctype Rewrap() {
  byte where; bool is_change;
end:
  do
  :: atomic { !is_locked[0] && CAN_COMMIT && !is_old_destroyed ->
      where = current; is_locked[0] = true; is_change = server[where].kek == OLD;
      if
      :: is_change -> commit(KEYS, put_kek, NEW, 0)
      :: else ->
        /* All keys are wrapped by the new KEK already: the answer waits as a change does. */
#ifndef NO_DURABLE_REWRAP
        commit(KEYS, message, 0, 0)
#endif
      fi };
    atomic { true ->
      if
      :: where == current && is_change -> server[where].kek = NEW
      :: else
      fi;
      if
      :: IS_DONE(KEYS) -> is_old_destroyed = true
      :: else
      fi;
      if
      :: where == current -> is_locked[0] = false
      :: else
      fi;
      behind[KEYS] = 0; where = 0; is_change = false; check() }
  od
}

/* standin policy apply, again and again */
proctype Apply(byte me) {
  byte where, version; bool is_change;
end:
  do
  :: atomic { !is_locked[1] && CAN_COMMIT && server[current].newest < VERSIONS ->
      where = current; is_locked[1] = true; version = server[where].newest;
      is_change = version == 0 || server[where].document[version] != me;
      if
      :: is_change -> version++; commit(me, put_policy, version, me)
      :: else ->
        /* The newest version is this document already. */
#ifndef NO_DURABLE_APPLY
        commit(me, message, 0, 0)
#endif
      fi };
    atomic { true ->
      if
      :: where == current && is_change ->
        server[where].newest = version; server[where].document[version] = me
      :: else
      fi;
      if
      :: IS_DONE(me) -> applied[me] = version
      :: else
      fi;
      if
      :: where == current -> is_locked[1] = false
      :: else
      fi;
      behind[me] = 0; where = 0; version = 0; is_change = false; check() }
  od
}

/* A node reads the newest version, and takes another one only when the standby has it. */
active proctype Node() {
  byte where, version, document;
end:
  do
  :: atomic { CAN_COMMIT ->
      where = current; version = server[where].newest; document = server[where].document[version];
      if
#ifdef NO_CONTENT
      :: version == in_force -> goto read
#else
      :: version == in_force && document == in_force_document -> goto read
#endif
      :: else
      fi;
#ifndef NO_DURABLE_VERSION
      commit(NODE, message, 0, 0)
#endif
    };
    atomic { true ->
      if
      :: IS_DONE(NODE) -> in_force = version; in_force_document = document
      :: else -> version = in_force; document = in_force_document
      fi;
read:
      /* What a read has found is in force, or the read has failed. */
      assert(in_force == version && in_force_document == document);
      behind[NODE] = 0; where = 0; version = 0; document = 0; check() }
  od
}

active proctype Failover() {
  mtype what; byte a, b, i;
  d_step { current == 0 ->
    do
    :: len(wal) > 0 -> wal?what(a, b)
    :: else -> break
    od;
    for (i : 0 .. COMMITTERS - 1) { behind[i] = 0 }
    is_locked[0] = false; is_locked[1] = false;
    what = message; a = 0; b = 0; i = 0; current = 1;
    check()
  }
}

init { atomic { run Apply(1); run Apply(2) } }
