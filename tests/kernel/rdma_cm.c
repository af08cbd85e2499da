/* RDMA-CM ids whose handlers block, end their ids, and are waited for. */

#include <linux/errno.h>
#include <pthread.h>
#include <rdma/rdma_cm.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "rdma_cm_script.h"
#include "ulp.h"

#define LONGEST_SECONDS 20 /* policy: of anything, on a busy machine */
#define NO_EVENT ((enum rdma_cm_event_type)99)

struct watched {
  struct rdma_cm_id* id;
  enum rdma_cm_event_type blocks; /* in the handler of this one, until `go` */
  enum rdma_cm_event_type ends;   /* the handler's answer to this one is not 0 */
  sem_t came, go;
  atomic_int calls, returned;
  enum rdma_cm_event_type heard[4];
};

static int handle(struct rdma_cm_id* id, struct rdma_cm_event* event) {
  struct watched* watched = id->context;
  watched->heard[watched->calls++ & 3] = event->event;
  sem_post(&watched->came);
  if (event->event == watched->blocks) {
    sem_wait(&watched->go);
    rdma_disconnect(id); /* its id is there though another thread destroys it */
  }
  watched->returned++;
  return event->event == watched->ends ? -ECONNRESET : 0;
}

static int await(sem_t* sem) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += LONGEST_SECONDS;
  return sem_timedwait(sem, &until);
}

static int open_watched(struct watched* watched) {
  sem_init(&watched->came, 0, 0);
  sem_init(&watched->go, 0, 0);
  watched->id = rdma_create_id(NULL, handle, watched, RDMA_PS_TCP, IB_QPT_RC);
  CHECK(!IS_ERR(watched->id));
  return 0;
}

/* How often its handler had returned when the id was destroyed. */
static void* destroy(void* of) {
  struct watched* watched = of;
  rdma_destroy_id(watched->id);
  return (void*)(long)watched->returned;
}

int check_rdma_cm_handlers(const struct rdma_cm_script* script) {
  static struct watched a = {.blocks = RDMA_CM_EVENT_ADDR_RESOLVED, .ends = NO_EVENT};
  static struct watched b = {.blocks = NO_EVENT, .ends = RDMA_CM_EVENT_DISCONNECTED};
  pthread_t destroyer;
  void* returned;
  int i;
  CHECK(open_watched(&a) == 0 && open_watched(&b) == 0);
  script->tell(0, RDMA_CM_EVENT_ADDR_RESOLVED);
  CHECK(await(&a.came) == 0);
  script->tell(0, RDMA_CM_EVENT_ROUTE_RESOLVED); /* waits behind the handler that blocks */
  script->tell(1, RDMA_CM_EVENT_ADDR_RESOLVED);
  script->tell(1, RDMA_CM_EVENT_ROUTE_RESOLVED);
  CHECK(await(&b.came) == 0 && await(&b.came) == 0);
  CHECK(b.heard[0] == RDMA_CM_EVENT_ADDR_RESOLVED && b.heard[1] == RDMA_CM_EVENT_ROUTE_RESOLVED);
  CHECK(a.calls == 1 && a.returned == 0);

  CHECK(pthread_create(&destroyer, NULL, destroy, &a) == 0);
  usleep(50 * 1000);
  CHECK(script->living() == 2);
  sem_post(&a.go);
  CHECK(pthread_join(destroyer, &returned) == 0);
  CHECK((long)returned == 1); /* it has waited for the handler */
  CHECK(script->living() == 1);

  script->tell(1, RDMA_CM_EVENT_DISCONNECTED);
  CHECK(await(&b.came) == 0);
  for (i = 0; script->living() != 0 && i < LONGEST_SECONDS * 1000; i++) {
    usleep(1000);
  }
  CHECK(script->living() == 0); /* by the answer of its handler */
  CHECK(a.calls == 1 && b.calls == 3);
  return 0;
}
