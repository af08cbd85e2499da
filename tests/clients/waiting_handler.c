/* Two listeners by the kernel's RDMA-CM: requests to the first port wait in its handler until a
 * file is there, those to the second are refused at once. For blockd.py: waiting_handler FIRST
 * SECOND FILE. */
#include <linux/err.h>
#include <netinet/in.h>
#include <rdma/rdma_cm.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char* release;

static void say(const char* what) {
  puts(what);
  fflush(stdout);
}

/* Other than 0: the request's id is destroyed. */
static int refuse(struct rdma_cm_id* id, struct rdma_cm_event* event) {
  const char* name = id->context;

  if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    return 0;
  }
  if (name[0] == 'f') {
    say("first waits");
    while (access(release, F_OK)) {
      usleep(10000);
    }
  }
  rdma_reject(id, name, 6, 0);
  say(name);
  return 1;
}

static struct rdma_cm_id* listen_at(const char* port, char* name) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((unsigned short)atoi(port))};
  struct rdma_cm_id* id = rdma_create_id(NULL, refuse, name, RDMA_PS_TCP, IB_QPT_RC);

  if (IS_ERR(id) || rdma_bind_addr(id, (struct sockaddr*)&address) || rdma_listen(id, 8)) {
    fprintf(stderr, "no listener at %s\n", port);
    exit(1);
  }
  return id;
}

int main(int count, char** arguments) {
  struct rdma_cm_id *first, *second;

  if (count != 4) {
    return 2;
  }
  release = arguments[3];
  first = listen_at(arguments[1], "first refused");
  second = listen_at(arguments[2], "second refused");
  say("listening");
  while (access(release, F_OK)) {
    usleep(10000);
  }
  rdma_destroy_id(first); /* after its handler */
  say("first destroyed");
  rdma_destroy_id(second);
  return 0;
}
