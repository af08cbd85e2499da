// Programs that connect by librdmacm as quickly as they can, for connections.py, which kills them.
//
//   connections server ADDRESS PORT               takes everybody, until it is killed
//   connections client ADDRESS PORT COUNT AT_ONCE connects, disconnects and begins anew
//
// A client says `cycles N` every now and then and at its end; what fails because the server was
// killed is tried again.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

namespace {

constexpr int kBacklog = 1024;
constexpr int kWaitLimitMs = 5000;
constexpr unsigned kSayEvery = 50;

void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
    std::exit(3);
  }
}

[[nodiscard]] sockaddr_in address_of(const char* text, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  require(inet_pton(AF_INET, text, &address.sin_addr) == 1, "the address");
  return address;
}

[[nodiscard]] sockaddr* generic(sockaddr_in& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

/// The QP of an id, with CQs of its own, which rdma_destroy_qp takes along.
[[nodiscard]] bool make_qp(rdma_cm_id* id) {
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {.max_send_wr = 2,
                    .max_recv_wr = 2,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  return rdma_create_qp(id, nullptr, &attributes) == 0;
}

void forget(rdma_cm_id* id) {
  if (id->qp != nullptr) {
    rdma_destroy_qp(id);
  }
  require(rdma_destroy_id(id) == 0, "rdma_destroy_id");
}

/// An event, acknowledged: what is told of it.
struct Told {
  rdma_cm_event_type type{};
  rdma_cm_id* id{};
};

[[nodiscard]] Told next(rdma_event_channel* channel) {
  rdma_cm_event* event = nullptr;
  require(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  const Told told{.type = event->event, .id = event->id};
  require(rdma_ack_cm_event(event) == 0, "rdma_ack_cm_event");
  return told;
}

[[noreturn]] void serve(sockaddr_in address) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  require(channel != nullptr, "rdma_create_event_channel");
  rdma_cm_id* listener = nullptr;
  require(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  require(rdma_bind_addr(listener, generic(address)) == 0, "rdma_bind_addr");
  require(rdma_listen(listener, kBacklog) == 0, "rdma_listen");
  std::puts("listening");
  std::fflush(stdout);
  for (;;) {
    const Told told = next(channel);
    if (told.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      rdma_conn_param parameters{};
      parameters.retry_count = 7;
      if (!make_qp(told.id) || rdma_accept(told.id, &parameters) != 0) {
        forget(told.id);
      }
    } else if (told.type == RDMA_CM_EVENT_DISCONNECTED) {
      rdma_disconnect(told.id);
      forget(told.id);
    } else if (told.type == RDMA_CM_EVENT_CONNECT_ERROR || told.type == RDMA_CM_EVENT_UNREACHABLE ||
               told.type == RDMA_CM_EVENT_REJECTED) {
      forget(told.id);
    }
  }
}

class Client {
 public:
  Client(sockaddr_in address, unsigned count) : address_(address), left_(count) {
    require(channel_ != nullptr, "rdma_create_event_channel");
  }

  void run(unsigned at_once) {
    for (unsigned i = 0; i < at_once && left_ != 0; ++i) {
      begin();
    }
    while (busy_ != 0) {
      step(next(channel_));
    }
    say();
  }

 private:
  void begin() {
    --left_;
    ++busy_;
    rdma_cm_id* id = nullptr;
    require(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    require(rdma_resolve_addr(id, nullptr, generic(address_), kWaitLimitMs) == 0,
            "rdma_resolve_addr");
  }

  void end(rdma_cm_id* id, bool is_done) {
    forget(id);
    --busy_;
    cycles_ += is_done ? 1 : 0;
    if (!is_done) {  // while there is no server
      ++left_;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else if (cycles_ % kSayEvery == 0) {
      say();
    }
    if (left_ != 0) {
      begin();
    }
  }

  void step(const Told& told) {
    switch (told.type) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        return require(rdma_resolve_route(told.id, kWaitLimitMs) == 0, "rdma_resolve_route");
      case RDMA_CM_EVENT_ROUTE_RESOLVED: {
        rdma_conn_param parameters{};
        parameters.retry_count = 7;
        require(make_qp(told.id), "rdma_create_qp");
        return require(rdma_connect(told.id, &parameters) == 0, "rdma_connect");
      }
      case RDMA_CM_EVENT_ESTABLISHED:
        if (rdma_disconnect(told.id) != 0) {  // the server was killed meanwhile
          end(told.id, false);
        }
        return;
      case RDMA_CM_EVENT_DISCONNECTED:
        return end(told.id, true);
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return;
      default:
        return end(told.id, false);
    }
  }

  void say() const {
    std::printf("cycles %u\n", cycles_);
    std::fflush(stdout);
  }

  rdma_event_channel* channel_{rdma_create_event_channel()};
  sockaddr_in address_;
  unsigned left_;
  unsigned busy_{};
  unsigned cycles_{};
};

}  // namespace

int main(int count, char** arguments) {
  const bool is_server = count == 4 && std::string_view{arguments[1]} == "server";
  if (!is_server && count != 6) {
    std::fputs("connections server ADDRESS PORT | client ADDRESS PORT COUNT AT_ONCE\n", stderr);
    return 2;
  }
  const sockaddr_in address = address_of(arguments[2], arguments[3]);
  if (is_server) {
    serve(address);
  }
  Client{address, static_cast<unsigned>(std::atoi(arguments[4]))}.run(
      static_cast<unsigned>(std::atoi(arguments[5])));
}
