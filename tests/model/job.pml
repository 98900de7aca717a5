/* One job, one client, one broker that may be killed NBC times, two workers each killed at
   most once. Covered: the client repeats until it has its answer; the broker is killed at any
   step and loses what it had not sent; messages left in a worker's queue across the broker's
   restart; requeueing after "never received"; and with CANCEL=1, a cancel of a job that has not
   started. Left out: retries, several jobs, the worker's start record, progress.
   Mutants that must be found out: FENCE=0, WAL=0, and with CANCEL=1 also CANCEL_WAL=0. */
#ifndef FENCE
#define FENCE 1
#endif
#ifndef WAL
#define WAL 1      /* 1: durable LEASED written before RUN is sent */
#endif
#ifndef CANCEL
#define CANCEL 0
#endif
#ifndef CANCEL_WAL
#define CANCEL_WAL 1 /* 1: durable CANCELLED written before the cancel is acknowledged */
#endif
#ifndef NBC
#define NBC 1
#endif
#ifndef RET
#define RET 2
#endif
mtype = { RUN, RACK, RESULT, HELLO };
byte jst=0, owner=0, att=0, own_inc=0, epoch=1;          /* durable */
bool known[2]; byte inck[2];                              /* volatile broker */
bool pack=false; bool prun=false; bool disp=false; /* volatile: already dispatched */                         /* work between durable write and send */
byte inc[2], cur[2], wep[2]; bool fin[2], sent[2];        /* worker memory */
bool told=false;                                          /* the client was told: it never starts */
byte bodyruns=0, outcomes=0, nb=0; bool acked=false; byte wc[2];
chan cb=[1] of {byte}; chan bc=[1] of {byte};
chan bw[2]=[2] of {mtype,byte,byte};
chan wb=[2] of {mtype,byte,byte,byte,byte};
#define TERMINAL (jst>=3)

active proctype client() { byte x; byte n=0;
  do
  :: acked -> break
  :: !acked && n<RET && nfull(cb) -> atomic{ cb!1; n++ }
  :: bc?x -> acked=true; assert(jst!=0)
  :: !acked && n==RET && empty(bc) && empty(cb) && !pack -> n=RET-1
  od }

active proctype broker() { byte x,w,a,i,e; mtype m;
  do
  :: atomic{ cb?x -> if :: jst==0 -> jst=1 :: else fi; pack=true }
  :: atomic{ pack && nfull(bc) -> pack=false; bc!1 }
  :: atomic{ jst==1 && !prun && !disp && known[0] -> disp=true; owner=0; own_inc=inck[0]; att++; 
#if WAL
       jst=2;
#endif
       prun=true }
  :: atomic{ jst==1 && !prun && !disp && known[1] -> disp=true; owner=1; own_inc=inck[1]; att++;
#if WAL
       jst=2;
#endif
       prun=true }
#if CANCEL && CANCEL_WAL
  :: atomic{ acked && jst==1 && !disp -> jst=5; outcomes++; told=true }
#endif
#if CANCEL && !CANCEL_WAL
  :: atomic{ acked && jst==1 && !disp && !prun -> disp=true; told=true }
  :: atomic{ told && jst==1 -> jst=5; outcomes++ }
#endif
  :: atomic{ prun && nfull(bw[owner]) -> prun=false; bw[owner]!RUN,att,epoch }
#if !WAL
  :: atomic{ !prun && disp && jst==1 -> jst=2 }
#endif
  :: atomic{ wb?m,w,a,i,e ->
       if
       :: m==RESULT ->
            if :: jst==2 && owner==w && a==att && i==own_inc -> jst=3; outcomes++ :: else fi;
            if :: nfull(bw[w]) -> bw[w]!RACK,a,epoch :: else fi
       :: m==HELLO && e==epoch -> known[w]=true; inck[w]=i;
            if
            :: jst==2 && owner==w && i!=own_inc -> jst=4; outcomes++; prun=false; disp=false
            :: jst==2 && owner==w && i==own_inc && a!=att && !prun -> jst=1; disp=false   /* it never got it: requeue */
            :: else
            fi
       :: else
       fi }
  /* disconnect seen, or grace period over and the pid of that incarnation is gone */
  :: atomic{ known[0] && inck[0]!=inc[0] -> known[0]=false; if :: jst==2&&owner==0&&own_inc==inck[0] -> jst=4; outcomes++; prun=false; disp=false :: else fi }
  :: atomic{ known[1] && inck[1]!=inc[1] -> known[1]=false; if :: jst==2&&owner==1&&own_inc==inck[1] -> jst=4; outcomes++; prun=false; disp=false :: else fi }
  /* kill -9 + restart from durable state */
  :: atomic{ nb<NBC -> nb++; epoch++; pack=false; prun=false; disp=false; known[0]=false; known[1]=false;
       do :: cb?x :: empty(cb) -> break od;
       do :: wb?m,w,a,i,e :: empty(wb) -> break od;
       if :: true -> do :: bc?x :: empty(bc) -> break od :: true fi;
       if :: true -> do :: bw[0]?m,a,e :: empty(bw[0]) -> break od :: true fi;
       if :: true -> do :: bw[1]?m,a,e :: empty(bw[1]) -> break od :: true fi }
  od }

proctype worker(byte w) { byte a,e; mtype m;
  do
  :: atomic{ wep[w]!=epoch && nfull(wb) -> wep[w]=epoch; sent[w]=false; wb!HELLO,w,cur[w],inc[w],epoch }
  :: atomic{ bw[w]?m,a,e ->
       if
       :: m==RUN && FENCE && e!=wep[w] -> skip
       :: m==RUN && !(FENCE && e!=wep[w]) && cur[w]==0 -> cur[w]=a; bodyruns++; assert(bodyruns<=1 && !told)
       :: m==RACK && a==cur[w] -> cur[w]=0; fin[w]=false; sent[w]=false
       :: else
       fi }
  :: atomic{ cur[w]!=0 && !fin[w] -> fin[w]=true }
  :: atomic{ fin[w] && !sent[w] && nfull(wb) -> sent[w]=true; wb!RESULT,w,cur[w],inc[w],wep[w] }
  :: atomic{ wc[w]<1 -> wc[w]++; inc[w]++; cur[w]=0; fin[w]=false; sent[w]=false; wep[w]=0;
       do :: bw[w]?m,a,e :: empty(bw[w]) -> break od }
  od }
init { atomic { run worker(0); run worker(1) } }
active proctype inv() { assert(outcomes<=1 && (!acked || jst!=0)) }
#ifdef LIVE
ltl live { [] (acked -> <> TERMINAL) }
#endif
