// Two hosts, each with its kernel's side and a mapper, over netlink that may lose what the kernel
// says and a network that loses, delays and repeats datagrams, in virtual time. Mappers die and
// start again. At the end both sides of each host must agree on who uses which port; the bugs of
// planted_bug.h are each found.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "iwpm/kernel_side.h"
#include "iwpm/mapper.h"
#include "iwpm/planted_bug.h"

namespace weft::iwpm {
namespace {

using wire::iwpm::DaemonError;
using wire::iwpm::kClientIwcm;
using wire::iwpm::Operation;

struct Scenario {
  unsigned network_loss{};  ///< percent of datagrams lost, and as many repeated
  unsigned netlink_loss{};  ///< percent of the kernel's messages
  bool loses_each_first{};  ///< the first copy of every datagram
  unsigned restarts{};
  unsigned moves{120};
};

/// Virtual time, and what happens when.
struct Clock {
  void at(Instant when, std::function<void()> what) {
    events.emplace(std::pair{when, ++order}, std::move(what));
  }
  Instant now{};
  std::uint64_t order = 0;
  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> events;
};

class World;

class Host final : public KernelServices, public MapperServices {
 public:
  Host(World& world, std::uint32_t number) : world_(world), ip_(IpAddress::v4(number)) {
    EXPECT_TRUE(kernel.init(kClientIwcm).has_value());
  }

  // The kernel's netlink: in order, and what is lost is noticed.
  Result<void> unicast(std::uint32_t port, std::vector<std::byte> datagram) override;
  Result<void> multicast(std::uint32_t group, std::vector<std::byte> datagram) override;
  void log(std::string /*line*/) override {}

  Result<ReservedPort> reserve_port(IpFamily family, std::uint16_t wanted) override;
  void release_port(PortHandle handle) override { bound.erase(static_cast<std::uint16_t>(handle)); }
  [[nodiscard]] bool owns_address(const IpAddress& address) const override {
    return address == ip_;
  }
  void send_to_kernel(std::vector<std::byte> datagram) override;
  void send_to_peer(PeerSocket socket, const SocketAddress& peer,
                    std::vector<std::byte> datagram) override;

  void start_mapper();
  void kill_mapper();

  [[nodiscard]] const IpAddress& ip() const { return ip_; }

  KernelSide kernel{*this};
  std::unique_ptr<Mapper> mapper;
  std::uint32_t life = 0;  ///< of the mapper: what was sent to an earlier one is lost
  std::set<std::uint16_t> bound;
  unsigned told = 0;                 ///< remote infos
  std::set<std::uint64_t> accepted;  ///< handles of peers' requests, of this life
  unsigned accepted_before = 0;      ///< of earlier ones

 private:
  World& world_;
  IpAddress ip_;
  bool has_lost_ = false;
};

/// A connection or listener, as a connection manager drives it.
struct Connection {
  std::size_t host{};
  bool is_active{};
  ConnectionAddresses addresses;
  std::uint32_t sequence{};  ///< of what it waits for
  bool is_registering{};
  bool is_mapped{};
  bool is_over{};
  int result{-1};
};

class World {
 public:
  World(std::uint64_t seed, const Scenario& chosen)
      : random(seed),
        scenario(chosen),
        hosts{
            Host{*this, 0x0A00'0001},
            Host{*this, 0x0A00'0002}
  } {}

  std::vector<std::string> run();

  Clock clock;
  Random random;
  Scenario scenario;
  std::array<Host, 2> hosts;
  std::set<std::vector<std::byte>> seen;  ///< datagrams of which one copy was lost
  std::vector<std::string> findings;

  void run_until(Instant end);

 private:
  void move();
  std::size_t open(std::size_t host, bool is_active, std::uint16_t port, std::uint16_t remote_port);
  void ask(Connection& connection);
  void end(Connection& connection);
  void settle();
  void take_completions(std::size_t host);
  void take(Connection& connection, const Completion& completion);
  void check();
  void check_host(std::size_t index);
  void expect(bool holds, const std::string& what) {
    if (!holds) {
      findings.push_back(what);
    }
  }

  std::vector<Connection> connections_;
};

Result<void> Host::unicast(std::uint32_t port, std::vector<std::byte> datagram) {
  if (mapper == nullptr || port != life) {
    return fail(ErrorCode::Refused, "no such socket");
  }
  if (world_.random.chance(world_.scenario.netlink_loss, 100)) {
    has_lost_ = true;  // Linux tells the reader when it reads next
    return {};
  }
  const bool overflow = std::exchange(has_lost_, false);
  world_.clock.at(world_.clock.now + Duration::microseconds(10),
                  [this, sent_to = life, overflow, datagram = std::move(datagram)] {
                    if (mapper == nullptr || life != sent_to) {
                      return;
                    }
                    if (overflow) {
                      mapper->handle_overflow(world_.clock.now);
                    }
                    mapper->handle_netlink(datagram, world_.clock.now);
                  });
  return {};
}

Result<void> Host::multicast(std::uint32_t group, std::vector<std::byte> datagram) {
  if (mapper == nullptr || group != wire::iwpm::kGroup) {
    return fail(ErrorCode::NotFound, "nobody listens");
  }
  return unicast(life, std::move(datagram));
}

Result<MapperServices::ReservedPort> Host::reserve_port(IpFamily /*family*/, std::uint16_t wanted) {
  std::uint16_t number = wanted;
  while (number == 0 || (wanted == 0 && bound.contains(number))) {
    number = static_cast<std::uint16_t>(40'000 + world_.random.below(20'000));
  }
  if (!bound.insert(number).second) {
    return fail(ErrorCode::AddressInUse, "port {} is in use", number);
  }
  return ReservedPort{.handle = number, .number = number};
}

void Host::send_to_kernel(std::vector<std::byte> datagram) {
  world_.clock.at(world_.clock.now + Duration::microseconds(10),
                  [this, sender = life, datagram = std::move(datagram)] {
                    ByteSpan rest = datagram;
                    const auto message = wire::netlink::take_message(rest);
                    const auto type = message->header.type;
                    told += wire::iwpm::operation_of(type) == Operation::RemoteInfo ? 1U : 0U;
                    std::ignore = kernel.handle_message(*message, sender, world_.clock.now);
                  });
}

void Host::send_to_peer(PeerSocket socket, const SocketAddress& peer,
                        std::vector<std::byte> datagram) {
  const auto message = wire::iwpm::parse_peer_message(datagram);
  if (message->type == wire::IwpmMessageType::Accept) {
    accepted.insert(message->handle);
  }
  const Scenario& scenario = world_.scenario;
  const bool is_lost = world_.random.chance(scenario.network_loss, 100) ||
                       (scenario.loses_each_first && world_.seen.insert(datagram).second);
  const unsigned copies = is_lost ? 0 : world_.random.chance(scenario.network_loss, 100) ? 2 : 1;
  const PeerSocket other = socket == PeerSocket::Client ? PeerSocket::Server : PeerSocket::Client;
  for (unsigned copy = 0; copy < copies; ++copy) {
    const auto delay =
        Duration::microseconds(100 + static_cast<std::int64_t>(world_.random.below(50'000)));
    world_.clock.at(world_.clock.now + delay, [this, peer, other, datagram] {
      for (Host& host : world_.hosts) {
        if (host.ip() == peer.ip && host.mapper != nullptr) {
          host.mapper->handle_datagram(other, SocketAddress{ip_, 3935}, datagram, world_.clock.now);
        }
      }
    });
  }
}

void Host::start_mapper() {
  mapper = std::make_unique<Mapper>(*this, MapperOptions{.port = ++life, .seed = world_.random()});
  mapper->start(world_.clock.now);
}

void Host::kill_mapper() {
  mapper.reset();
  bound.clear();
  has_lost_ = false;
  accepted_before += static_cast<unsigned>(accepted.size());
  accepted.clear();
}

void World::run_until(Instant end) {
  for (;;) {
    Instant next = clock.events.empty() ? Instant::never() : clock.events.begin()->first.first;
    for (const Host& host : hosts) {
      next = std::min(next, host.kernel.poll_deadline());
      next = std::min(next, host.mapper == nullptr ? next : host.mapper->poll_deadline());
    }
    if (next > end) {
      break;
    }
    clock.now = std::max(clock.now, next);
    if (!clock.events.empty() && clock.events.begin()->first.first <= clock.now) {
      const auto what = std::move(clock.events.begin()->second);
      clock.events.erase(clock.events.begin());
      what();
    }
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      hosts[i].kernel.handle_timeout(clock.now);
      if (hosts[i].mapper != nullptr) {
        hosts[i].mapper->handle_timeout(clock.now);
        hosts[i].mapper->check_invariants();
      }
      hosts[i].kernel.check_invariants();
      take_completions(i);
    }
  }
  clock.now = end;
}

std::size_t World::open(std::size_t host, bool is_active, std::uint16_t port,
                        std::uint16_t remote_port) {
  Connection connection;
  connection.host = host;
  connection.is_active = is_active;
  connection.addresses.local = {hosts[host].ip(), port};
  connection.addresses.remote = {hosts[1 - host].ip(), remote_port};
  const auto started = hosts[host].kernel.register_pid(
      {.device_name = "siw0", .interface_name = "eth0"}, kClientIwcm, clock.now);
  connections_.push_back(connection);
  Connection& added = connections_.back();
  if (started && started->completion_follows) {
    added.is_registering = true;
    added.sequence = started->sequence;
  } else if (started) {
    ask(added);
  }
  return connections_.size() - 1;
}

void World::ask(Connection& connection) {
  KernelSide& kernel = hosts[connection.host].kernel;
  const auto started =
      connection.is_active
          ? kernel.add_and_query_mapping(connection.addresses, kClientIwcm, clock.now)
          : kernel.add_mapping(connection.addresses, kClientIwcm, clock.now);
  connection.sequence = started && started->completion_follows ? started->sequence : 0;
}

void World::take_completions(std::size_t host) {
  while (const auto completion = hosts[host].kernel.poll_completion()) {
    for (Connection& connection : connections_) {
      if (connection.host == host && connection.sequence == completion->sequence) {
        take(connection, *completion);
      }
    }
  }
}

void World::take(Connection& connection, const Completion& completion) {
  connection.sequence = 0;
  connection.result = completion.result.number;
  if (std::exchange(connection.is_registering, false)) {
    if (completion.result.number == 0) {
      ask(connection);
    }
    return;
  }
  if (!completion.has_mapping()) {
    return;
  }
  KernelSide& kernel = hosts[connection.host].kernel;
  connection.addresses = completion.addresses;
  connection.is_mapped = kernel
                             .create_mapinfo(connection.addresses.local,
                                             connection.addresses.mapped_local, kClientIwcm, 0)
                             .has_value();
}

void World::end(Connection& connection) {
  connection.is_over = true;
  if (!connection.is_mapped) {
    return;
  }
  KernelSide& kernel = hosts[connection.host].kernel;
  expect(kernel.remove_mapinfo(connection.addresses.local, connection.addresses.mapped_local)
             .has_value(),
         "a mapping in use is not on record");
  std::ignore = kernel.remove_mapping(connection.addresses.local, kClientIwcm);
  connection.is_mapped = false;
}

void World::move() {
  const std::size_t host = random.below(2);
  const std::uint64_t what = random.below(10);
  if (what < 2) {
    std::ignore = open(host, false, static_cast<std::uint16_t>(7000 + random.below(8)), 0);
  } else if (what < 6) {
    // Few local ports, so that connections share them.
    std::ignore = open(host, true, static_cast<std::uint16_t>(5000 + random.below(4)),
                       static_cast<std::uint16_t>(7000 + random.below(8)));
  } else if (!connections_.empty()) {
    Connection& one = connections_[random.below(connections_.size())];
    if (one.sequence == 0 && !one.is_over) {
      end(one);
    }
  }
  run_until(clock.now + Duration::milliseconds(static_cast<std::int64_t>(random.below(400))));
}

/// The network heals, and everything that was begun ends.
void World::settle() {
  scenario.network_loss = 0;
  scenario.netlink_loss = 0;
  scenario.loses_each_first = false;
  run_until(clock.now + Duration::seconds(30));
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    // Whatever is said next tells the mapper that something was lost.
    std::ignore = hosts[i].kernel.remove_mapping({hosts[i].ip(), 1}, kClientIwcm);
  }
  run_until(clock.now + Duration::seconds(30));
}

void World::check_host(std::size_t index) {
  Host& host = hosts[index];
  expect(host.kernel.requests() == 0, "a request is left");
  std::map<std::pair<std::string, std::string>, unsigned> expected;
  std::map<std::pair<std::string, std::string>, unsigned> found;
  for (const auto& record : host.kernel.records().mapinfo_of(kClientIwcm)) {
    ++expected[{wire::iwpm::to_string(record.local), wire::iwpm::to_string(record.mapped)}];
  }
  std::set<std::uint16_t> ports;
  for (const MappedPort& port : host.mapper->mappings()) {
    found[{wire::iwpm::to_string(port.local), wire::iwpm::to_string(port.mapped)}] =
        port.references;
    ports.insert(port.mapped.port);
  }
  expect(found == expected, "kernel and mapper do not agree");
  expect(host.bound == ports, "other ports are bound than are mapped");
  expect(host.told <= host.accepted_before + host.accepted.size(), "a peer was told of twice");
  expect(host.mapper->open_exchanges() == 0, "an exchange is left");
}

void World::check() {
  check_host(0);
  check_host(1);
  // What begins now is mapped by both mappers.
  const std::size_t listener = open(1, false, 9000, 0);
  run_until(clock.now + Duration::seconds(1));
  const std::size_t active = open(0, true, 9001, 9000);
  run_until(clock.now + Duration::seconds(1));
  const Connection& passive = connections_[listener];
  expect(passive.is_mapped, "a listener is not mapped");
  expect(connections_[active].is_mapped && connections_[active].result == 0 &&
             connections_[active].addresses.mapped_remote.is_same(passive.addresses.mapped_local),
         "a connection does not find where its peer listens");
  expect(hosts[1]
             .kernel
             .get_remote_info(passive.addresses.mapped_local,
                              connections_[active].addresses.mapped_local, kClientIwcm)
             .has_value(),
         "the listener was not told who connects");
  for (Connection& connection : connections_) {
    if (!connection.is_over) {
      end(connection);
    }
  }
  run_until(clock.now + Duration::seconds(30));
  check_host(0);
  check_host(1);
  expect(hosts[0].bound.empty() && hosts[1].bound.empty(), "a port without a user is bound");
}

std::vector<std::string> World::run() {
  for (Host& host : hosts) {
    host.start_mapper();
  }
  run_until(clock.now + Duration::seconds(1));
  if (scenario.loses_each_first) {
    const std::size_t listener = open(1, false, 8000, 0);
    run_until(clock.now + Duration::seconds(1));
    const std::size_t active = open(0, true, 8001, 8000);
    run_until(clock.now + Duration::seconds(9));
    expect(connections_[listener].is_mapped && connections_[active].result == 0,
           "a datagram that is lost once is not made up for");
  }
  const unsigned between = scenario.moves / (scenario.restarts + 1);
  for (unsigned i = 0; i < scenario.moves; ++i) {
    if (scenario.restarts != 0 && i % between == between - 1) {
      Host& host = hosts[random.below(2)];
      host.kill_mapper();
      run_until(clock.now + Duration::milliseconds(static_cast<std::int64_t>(random.below(900))));
      host.start_mapper();
    }
    move();
  }
  settle();
  check();
  return findings;
}

const std::array<Scenario, 5> kScenarios{
    {
     {.network_loss = 0, .netlink_loss = 0, .loses_each_first = false, .restarts = 0},
     {.network_loss = 20, .netlink_loss = 0, .loses_each_first = false, .restarts = 0},
     {.network_loss = 0, .netlink_loss = 0, .loses_each_first = true, .restarts = 0},
     {.network_loss = 10, .netlink_loss = 0, .loses_each_first = false, .restarts = 4},
     {.network_loss = 5, .netlink_loss = 5, .loses_each_first = false, .restarts = 0},
     }
};

std::vector<std::string> run_all(std::uint64_t seeds) {
  std::vector<std::string> findings;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (std::size_t i = 0; i < kScenarios.size(); ++i) {
      const auto world = std::make_unique<World>(seed, kScenarios[i]);
      for (const std::string& finding : world->run()) {
        findings.push_back("seed " + std::to_string(seed) + ", scenario " + std::to_string(i) +
                           ": " + finding);
      }
    }
  }
  return findings;
}

TEST(IwpmLossyNetwork, KernelAndMapperAgreeInTheEnd) {
  for (const std::string& finding : run_all(8)) {
    ADD_FAILURE() << finding;
  }
}

// Part of T-IWPM-2: the daemon is an object here, and its death takes its ports.
TEST(IwpmLossyNetwork, ARestartedMapperIsToldBothMappings) {
  World world{1, Scenario{}};
  Host& host = world.hosts[0];
  host.start_mapper();
  world.run_until(world.clock.now + Duration::seconds(1));
  ASSERT_EQ(host.kernel.check_registration(kClientIwcm, kRegistrationIncomplete), true);
  for (const std::uint16_t port : {std::uint16_t{1}, std::uint16_t{2}}) {
    ASSERT_TRUE(host.kernel
                    .create_mapinfo({host.ip(), port},
                                    {host.ip(), static_cast<std::uint16_t>(port + 100)},
                                    kClientIwcm, 0)
                    .has_value());
  }
  host.kill_mapper();
  host.start_mapper();
  world.run_until(world.clock.now + Duration::seconds(1));
  EXPECT_EQ(host.kernel.daemon(), host.life);
  EXPECT_EQ(host.mapper->mappings().size(), 2U);
  EXPECT_EQ(host.bound, (std::set<std::uint16_t>{101, 102}));
  EXPECT_EQ(host.kernel.send_mapinfo(kClientIwcm, host.life).value_or(0), 2U);
}

#ifdef WEFT_PLANTED_BUGS
class IwpmPlantedBug : public ::testing::TestWithParam<PlantedBug> {
 protected:
  void TearDown() override { planted_bug = PlantedBug::None; }
};

TEST_P(IwpmPlantedBug, IsFound) {
  planted_bug = GetParam();
  EXPECT_FALSE(run_all(4).empty());
}

std::vector<PlantedBug> all_bugs() {
  std::vector<PlantedBug> bugs;
  for (auto bug = 1U; bug <= static_cast<unsigned>(kLastBug); ++bug) {
    bugs.push_back(static_cast<PlantedBug>(bug));
  }
  return bugs;
}

INSTANTIATE_TEST_SUITE_P(Each, IwpmPlantedBug, ::testing::ValuesIn(all_bugs()));
#endif

}  // namespace
}  // namespace weft::iwpm
