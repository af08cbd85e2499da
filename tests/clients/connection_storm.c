// Connections of one host to others, all begun at once, and those of others to it: a storm, when
// every host runs one.
//
//   connection_storm ADDRESS EXPECTED PEER...
//
// Listens at ADDRESS, says "listens", and waits for a line. Then it begins a connection to each
// PEER (an address that is named twice gets two), and ends well when these and EXPECTED others have
// been made: it says "made", with the milliseconds that its own took, and waits for the end of its
// input before it destroys anything. Every step is bounded in time.

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kPort = 7471, kStepMilliseconds = 20000, kWaitMilliseconds = 60000 };

static struct rdma_event_channel* channel;

static void give_up(const char* what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

static struct sockaddr_in address_of(const char* text) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(kPort)};
  if (inet_pton(AF_INET, text, &address.sin_addr) != 1) {
    errno = EINVAL;
    give_up(text);
  }
  return address;
}

static void make_qp(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr wanted = {
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}
  };
  if (rdma_create_qp(id, NULL, &wanted)) {
    give_up("rdma_create_qp");
  }
}

static void begin(const char* peer) {
  struct sockaddr_in address = address_of(peer);
  struct rdma_cm_id* id = NULL;
  if (rdma_create_id(channel, &id, channel, RDMA_PS_TCP) ||  // a context: it is begun here
      rdma_resolve_addr(id, NULL, (struct sockaddr*)&address, kStepMilliseconds)) {
    give_up(peer);
  }
}

/// Goes on with the connection that the event is of; 1: it has been made, from here (`is_own`) or
/// from elsewhere.
static int take(const struct rdma_cm_event* event, int* is_own) {
  struct rdma_conn_param parameters = {.retry_count = 7, .rnr_retry_count = 7};
  switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(event->id, kStepMilliseconds)) {
        give_up("rdma_resolve_route");
      }
      return 0;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      make_qp(event->id);
      if (rdma_connect(event->id, &parameters)) {
        give_up("rdma_connect");
      }
      return 0;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      make_qp(event->id);
      if (rdma_accept(event->id, &parameters)) {
        give_up("rdma_accept");
      }
      return 0;
    case RDMA_CM_EVENT_ESTABLISHED:
      *is_own = event->id->context != NULL;
      return 1;
    case RDMA_CM_EVENT_DISCONNECTED:  // a peer that has seen all of its own ends
      return 0;
    default:
      fprintf(stderr, "%s, status %d\n", rdma_event_str(event->event), event->status);
      exit(1);
  }
}

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(int count, char** words) {
  if (count < 3) {
    fprintf(stderr, "connection_storm ADDRESS EXPECTED PEER...\n");
    return 2;
  }
  struct sockaddr_in own = address_of(words[1]);
  int others = atoi(words[2]);
  int mine = count - 3;
  struct rdma_cm_id* listener = NULL;
  channel = rdma_create_event_channel();
  if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
      rdma_bind_addr(listener, (struct sockaddr*)&own) || rdma_listen(listener, 1024)) {
    give_up("a listener");
  }
  printf("listens\n");
  fflush(stdout);
  char line[16];
  if (!fgets(line, sizeof line, stdin)) {
    return 1;
  }
  const double start = milliseconds();
  double took = 0;
  for (int i = 3; i < count; ++i) {
    begin(words[i]);
  }
  while (mine > 0 || others > 0) {
    struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event* event = NULL;
    if (poll(&wait, 1, kWaitMilliseconds) != 1) {
      fprintf(stderr, "%d own connections and %d of others are not made\n", mine, others);
      return 1;
    }
    if (rdma_get_cm_event(channel, &event)) {
      give_up("rdma_get_cm_event");
    }
    int is_own = 0;
    if (take(event, &is_own)) {
      mine -= is_own;
      others -= !is_own;
      took = is_own ? milliseconds() - start : took;
    }
    rdma_ack_cm_event(event);
  }
  printf("made %.0f\n", took);
  fflush(stdout);
  return fgets(line, sizeof line, stdin) ? 1 : 0;  // the process's end destroys the rest
}
