// Whether threads of one program stand in each other's way: message rate of T threads of one
// process to T threads of another.
//
//   weft_thread_rate -p PORT [-t THREADS] [-n COUNT]             the server
//   weft_thread_rate -p PORT [-t THREADS] [-n COUNT] ADDRESS     the client
//
// An ordinary client of libibverbs. Every thread has an RC QP and a CQ of its own; the threads of a
// process share its PD. Each client thread streams RDMA WRITEs of 8 octets, numbered from 1 to
// COUNT, with a window of 128 and every 32nd signalled; the server's thread polls its CQ until the
// last number is in memory. The client prints one JSON object when the server has said that all of
// them arrived.

#include <infiniband/verbs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ratio>
#include <thread>
#include <vector>

#include "bench_socket.h"

namespace {

using weft::bench::require;
using weft::bench::require_zero;
using weft::bench::Socket;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kWindow = 128;
constexpr std::uint32_t kSignalEvery = 32;
constexpr std::uint8_t kPort = 1;
constexpr unsigned kThreadsMax = 64;                 // policy
constexpr unsigned kSecondsMax = 60;                 // policy: of the whole program
constexpr std::chrono::seconds kStreamDuration{25};  // policy: below a socket's patience
constexpr std::uint32_t kPollsBetweenScans = 1024;   // policy: at the clock
constexpr std::array<char, 8> kHello{"threads"};     // begins what the client sends
constexpr std::uint8_t kTimeout = 14;                // policy: 67 ms, as perftest
constexpr std::uint8_t kRetries = 7;                 // policy: as perftest

struct Options {
  std::uint16_t port = 0;
  unsigned threads = 1;
  std::uint64_t count = 1'000'000;
  const char* server = nullptr;  // none: this is the server
};

/// What one side tells the other of a thread.
struct Endpoint {
  std::uint64_t address;
  std::uint32_t qpn;
  std::uint32_t psn;
  std::uint32_t rkey;
  std::uint32_t lid;
};

/// The memory of one thread: what the client sends from, and in the first slot what the server's
/// receives.
struct alignas(128) Slots {
  std::array<std::uint64_t, kWindow> number{};
};

struct Verbs {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_port_attr port{};
};

struct Lane {
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  Slots* slots = nullptr;
  Endpoint here{};
  Endpoint there{};
};

/// Ends the program when a wait has lasted too long; looks at the clock now and then.
class Patience {
 public:
  void wait() {
    if (++polls_ % kPollsBetweenScans == 0 && Clock::now() > end_) {
      weft::bench::fail("the stream", ETIMEDOUT);
    }
  }

 private:
  Clock::time_point end_ = Clock::now() + kStreamDuration;
  std::uint32_t polls_ = 0;
};

Verbs open_verbs() {
  int devices = 0;
  ibv_device** const list = ibv_get_device_list(&devices);
  require(list != nullptr && devices > 0, "device list");
  Verbs verbs;
  verbs.context = ibv_open_device(list[0]);
  require(verbs.context != nullptr, "open device");
  ibv_free_device_list(list);
  verbs.pd = ibv_alloc_pd(verbs.context);
  require(verbs.pd != nullptr, "allocate PD");
  require_zero(ibv_query_port(verbs.context, kPort, &verbs.port), "query port");
  return verbs;
}

void initialise(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  require_zero(ibv_modify_qp(qp, &attributes,
                             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
               "modify QP to INIT");
}

Lane open_lane(const Verbs& verbs, Slots& slots, std::uint32_t number) {
  Lane lane;
  lane.slots = &slots;
  lane.cq = ibv_create_cq(verbs.context, static_cast<int>(kWindow), nullptr, nullptr, 0);
  require(lane.cq != nullptr, "create CQ");
  lane.mr =
      ibv_reg_mr(verbs.pd, &slots, sizeof(slots), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  require(lane.mr != nullptr, "register memory");
  ibv_qp_init_attr attributes{};
  attributes.send_cq = lane.cq;
  attributes.recv_cq = lane.cq;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = kWindow;
  attributes.cap.max_recv_wr = 1;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_recv_sge = 1;
  lane.qp = ibv_create_qp(verbs.pd, &attributes);
  require(lane.qp != nullptr, "create QP");
  initialise(lane.qp);
  lane.here = {.address = std::bit_cast<std::uintptr_t>(&slots),
               .qpn = lane.qp->qp_num,
               .psn = number * 1000,
               .rkey = lane.mr->rkey,
               .lid = verbs.port.lid};
  return lane;
}

void connect(const Lane& lane, ibv_mtu mtu) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu;
  attributes.dest_qp_num = lane.there.qpn;
  attributes.rq_psn = lane.there.psn;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.dlid = static_cast<std::uint16_t>(lane.there.lid);
  attributes.ah_attr.port_num = kPort;
  require_zero(ibv_modify_qp(lane.qp, &attributes,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
               "modify QP to RTR");
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = kTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kRetries;
  attributes.sq_psn = lane.here.psn;
  attributes.max_rd_atomic = 1;
  require_zero(ibv_modify_qp(lane.qp, &attributes,
                             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
               "modify QP to RTS");
}

/// The numbers completed since the last time; a completion in error ends the program.
std::uint64_t poll(ibv_cq* cq, std::uint64_t completed) {
  std::array<ibv_wc, 8> completions;
  const int found = ibv_poll_cq(cq, static_cast<int>(completions.size()), completions.data());
  require(found >= 0, "poll CQ");
  for (int index = 0; index < found; ++index) {
    const ibv_wc& completion = completions[static_cast<std::size_t>(index)];
    if (completion.status != IBV_WC_SUCCESS) {
      weft::bench::fail(ibv_wc_status_str(completion.status), EIO);
    }
    completed = completion.wr_id;
  }
  return completed;
}

void post(const Lane& lane, std::uint64_t number, bool signalled) {
  std::uint64_t& source = lane.slots->number[number % kWindow];
  source = number;
  ibv_sge piece{.addr = std::bit_cast<std::uintptr_t>(&source),
                .length = sizeof(source),
                .lkey = lane.mr->lkey};
  ibv_send_wr request{};
  request.wr_id = number;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = signalled ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0U;
  request.wr.rdma.remote_addr = lane.there.address;
  request.wr.rdma.rkey = lane.there.rkey;
  ibv_send_wr* refused = nullptr;
  require_zero(ibv_post_send(lane.qp, &request, &refused), "post send");
}

/// The client's thread.
void stream(const Lane& lane, std::uint64_t count) {
  Patience patience;
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;
  while (completed < count) {
    while (posted < count && posted - completed < kWindow) {
      ++posted;
      post(lane, posted, posted % kSignalEvery == 0 || posted == count);
    }
    completed = poll(lane.cq, completed);
    patience.wait();
  }
}

/// The server's thread.
void await_last(const Lane& lane, std::uint64_t count) {
  Patience patience;
  const std::atomic_ref<std::uint64_t> last(lane.slots->number.front());
  while (last.load(std::memory_order_acquire) != count) {
    poll(lane.cq, 0);
    patience.wait();
  }
}

/// Seconds from the first thread's start to the last one's end.
double run(const std::vector<Lane>& lanes, const Options& options) {
  std::barrier start(static_cast<std::ptrdiff_t>(lanes.size()));
  std::vector<Clock::time_point> begins(lanes.size());
  std::vector<Clock::time_point> ends(lanes.size());
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < lanes.size(); ++index) {
    threads.emplace_back([&, index] {
      start.arrive_and_wait();
      begins[index] = Clock::now();
      if (options.server != nullptr) {
        stream(lanes[index], options.count);
      } else {
        await_last(lanes[index], options.count);
      }
      ends[index] = Clock::now();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return std::chrono::duration<double>(std::ranges::max(ends) - std::ranges::min(begins)).count();
}

Socket join_peer(const Options& options) {
  if (options.server != nullptr) {
    return Socket(weft::bench::connect_to(options.server, options.port));
  }
  const int listener = weft::bench::listen_on_loopback(options.port);
  const int peer = accept(listener, nullptr, nullptr);
  require(peer >= 0, "accept");
  close(listener);
  return Socket(peer);
}

/// Both sides must have been asked for the same.
void agree(const Socket& peer, const Options& options) {
  struct Question {
    std::array<char, 8> hello;
    std::uint64_t threads;
    std::uint64_t count;
    bool operator==(const Question&) const = default;
  };
  const Question mine{.hello = kHello, .threads = options.threads, .count = options.count};
  peer.send_value(mine);
  if (peer.receive_value<Question>() != mine) {
    weft::bench::fail("the other side has other options", EINVAL);
  }
}

Options parse(int count, char** words) {
  Options options;
  for (int letter = 0; (letter = getopt(count, words, "p:t:n:")) != -1;) {
    switch (letter) {
      case 'p':
        options.port = static_cast<std::uint16_t>(std::strtoul(optarg, nullptr, 10));
        break;
      case 't':
        options.threads = static_cast<unsigned>(std::strtoul(optarg, nullptr, 10));
        break;
      case 'n':
        options.count = std::strtoull(optarg, nullptr, 10);
        break;
      default:
        std::exit(2);
    }
  }
  if (options.port == 0 || options.threads == 0 || options.threads > kThreadsMax ||
      options.count == 0) {
    std::fputs("weft_thread_rate -p PORT [-t THREADS] [-n COUNT] [ADDRESS]\n", stderr);
    std::exit(2);
  }
  options.server = optind < count ? words[optind] : nullptr;
  return options;
}

}  // namespace

int main(int count, char** words) {
  const Options options = parse(count, words);
  alarm(kSecondsMax);
  const Verbs verbs = open_verbs();
  std::vector<Slots> slots(options.threads);
  std::vector<Lane> lanes;
  for (Slots& mine : slots) {
    lanes.push_back(open_lane(verbs, mine, static_cast<std::uint32_t>(lanes.size() + 1)));
  }
  const Socket peer = join_peer(options);
  agree(peer, options);
  for (Lane& lane : lanes) {
    peer.send_value(lane.here);
    lane.there = peer.receive_value<Endpoint>();
    connect(lane, verbs.port.active_mtu);
  }
  agree(peer, options);  // all QPs of both sides are in RTS
  const double seconds = run(lanes, options);
  agree(peer, options);  // every thread of both sides has seen its last number
  if (options.server != nullptr) {
    std::printf("{\"threads\": %u, \"million_messages_per_s\": %.4f}\n", options.threads,
                static_cast<double>(options.threads * options.count) / seconds / 1e6);
  }
  return 0;
}
