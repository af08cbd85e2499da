#include "ulp/srp/testing/world.h"

#include <fmt/format.h>

namespace weft::srp::testing {
namespace {

[[nodiscard]] wire::SrpPortId id_of(std::size_t number) {
  wire::SrpPortId id{};
  id[15] = static_cast<std::byte>(number);
  return id;
}

constexpr std::size_t kTargetNumber = 0xAA;
constexpr std::size_t kBlockBytes = 512;

}  // namespace

// ---- Link -----------------------------------------------------------------------------------

void Link::accept(ByteSpan login_rsp) {
  const Octets octets{login_rsp.begin(), login_rsp.end()};
  credits_ = wire::parse<wire::SrpLoginRsp>(octets)->request_limit_delta;
  to_initiator_ = world_.now + world_.delay();
  world_.at(to_initiator_, [self = shared_from_this(), octets] {
    if (!self->alive_) {
      return;
    }
    self->world_.paths[self->path_]->session.handle_connected(octets, self->world_.now);
    self->world_.at(self->world_.delay(2000), [self] {  // the RTU may be overtaken by commands
      Channel* const channel = self->world_.target.channel(*self->channel);
      if (channel != nullptr) {
        channel->handle_rtu();
      }
    });
  });
}

void Link::reject(ByteSpan login_rej) {
  const Octets octets{login_rej.begin(), login_rej.end()};
  world_.at(world_.delay(), [self = shared_from_this(), octets] {
    if (self->alive_) {
      self->world_.paths[self->path_]->session.handle_rejected(octets, self->world_.now);
    }
  });
}

void Link::send_dreq() {
  world_.at(world_.delay(2000), [self = shared_from_this()] { self->break_now(); });
  world_.at(Duration::milliseconds(5), [self = shared_from_this()] {
    if (Channel* const channel = self->world_.target.channel(*self->channel)) {
      channel->handle_drep();
    }
  });
}

void Link::break_now() {
  if (!std::exchange(alive_, false)) {
    return;
  }
  world_.at(world_.delay(3000), [self = shared_from_this()] {
    Path& path = *self->world_.paths[self->path_];
    if (path.link == self) {
      path.session.handle_lost(self->world_.now);
    }
  });
  world_.at(world_.delay(20'000), [self = shared_from_this()] {
    Channel* const channel = self->channel ? self->world_.target.channel(*self->channel) : nullptr;
    if (channel != nullptr) {
      channel->close();
    }
  });
}

void Link::report(std::function<void(Channel&, bool)> what) {
  to_initiator_ = std::max(to_initiator_, world_.now) + world_.delay();
  world_.at(to_initiator_, [self = shared_from_this(), what = std::move(what)] {
    if (Channel* const channel = self->world_.target.channel(*self->channel)) {
      what(*channel, self->alive_);
    }
  });
}

/// The checker's account of credits is kept where units arrive, which is what an initiator knows.
void Link::deliver(const Octets& unit) {
  const auto decoded = wire::srp_tables::decode_unit(unit);
  world_.expect(decoded.faults.empty(), "a unit is not as the tables say");
  const auto delta = decoded.numbers.find("REQUEST LIMIT DELTA");
  if (delta != decoded.numbers.end()) {
    credits_ += static_cast<std::int32_t>(delta->second);
  }
  world_.expect(credits_ <= World::kLimit, "more credits than the login's limit");
  world_.paths[path_]->session.handle_receive(unit, world_.now);
}

Result<void> Link::post_send(std::size_t slot, ByteSpan unit) {
  if (!alive_) {
    return weft::fail(ErrorCode::ShutDown, "the connection is broken");
  }
  const Octets octets{unit.begin(), unit.end()};
  report([self = shared_from_this(), slot, octets](Channel& channel, bool alive) {
    if (alive) {
      self->deliver(octets);
      if (self->world_.random.chance(self->world_.scenario.repeats, 1000) && self->alive_) {
        self->world_.paths[self->path_]->session.handle_receive(octets, self->world_.now);
      }
    }
    channel.handle_send_done(slot, alive);
  });
  return {};
}

Result<void> Link::post_read(std::size_t slot, std::span<const Segment> from,
                             MutableByteSpan into) {
  if (!alive_) {
    return weft::fail(ErrorCode::ShutDown, "the connection is broken");
  }
  const std::vector<Segment> segments{from.begin(), from.end()};
  report([self = shared_from_this(), slot, segments, into](Channel& channel, bool alive) {
    const bool readable = alive && self->world_.memory.read(segments, into);
    self->world_.expect(readable || !alive, "the target reads memory that is not its own");
    channel.handle_read_done(slot, readable);
  });
  return {};
}

Result<void> Link::post_write_and_send(std::size_t slot, std::span<const ByteSpan> data,
                                       std::span<const Segment> to, ByteSpan unit) {
  if (!alive_) {
    return weft::fail(ErrorCode::ShutDown, "the connection is broken");
  }
  const std::vector<Segment> segments{to.begin(), to.end()};
  const std::vector<ByteSpan> pieces{data.begin(), data.end()};
  const Octets octets{unit.begin(), unit.end()};
  report([self = shared_from_this(), slot, pieces, segments, octets](Channel& channel, bool alive) {
    if (alive) {
      self->world_.expect(self->world_.memory.write(segments, pieces),
                          "the target writes memory that is not its own");
      self->deliver(octets);
    }
    channel.handle_send_done(slot, alive);
  });
  return {};
}

Result<void> Link::post_marker() {
  report([](Channel& channel, bool alive) { channel.handle_marker_done(alive); });
  return {};
}

void Link::send_to_target(Octets unit) {
  const auto decoded = wire::srp_tables::decode_unit(unit);
  world_.expect(decoded.faults.empty(), "a unit is not as the tables say");
  if (decoded.name == "SRP_CMD" || decoded.name == "SRP_TSK_MGMT") {
    --credits_;
    world_.expect(credits_ >= (decoded.name == "SRP_CMD" ? 1 : 0),
                  "a request without a credit, or with the one for task management");
  }
  to_target_ = std::max(to_target_, world_.now) + world_.delay(50);
  world_.at(to_target_, [self = shared_from_this(), unit = std::move(unit)] {
    Channel* const channel = self->alive_ ? self->world_.target.channel(*self->channel) : nullptr;
    if (channel != nullptr) {
      channel->handle_receive(unit);
    }
  });
}

// ---- Path -----------------------------------------------------------------------------------

Path::Path(World& world, std::size_t index)
    : session(*this, *this, *this,
              {.initiator_port_id = id_of(index + 1),
               .target_port_id = id_of(kTargetNumber),
               .wants_immediate_data = index == 1,
               .task_timeout = Duration::milliseconds(200),
               .login_timeout = Duration::milliseconds(100),
               .reconnect_delay = Duration::milliseconds(10),
               .fast_io_fail = Duration::seconds(5),
               .dev_loss = std::nullopt}),
      world_(world),
      index_(index) {}

void Path::connect(ByteSpan login_req) {
  link = std::make_shared<Link>(world_, index_);
  world_.at(world_.delay(),
            [self = link, this, octets = Octets{login_req.begin(), login_req.end()}] {
              if (!self->is_alive()) {
                return;
              }
              const auto id = world_.target.log_in(World::kPort, {.private_data = octets}, self);
              if (id) {
                self->channel = *id;
              }
            });
}

Result<void> Path::post_send(ByteSpan unit) {
  if (link == nullptr || !link->is_alive()) {
    return weft::fail(ErrorCode::ShutDown, "the connection is broken");
  }
  link->send_to_target({unit.begin(), unit.end()});
  return {};
}

void Path::disconnect() {
  if (link != nullptr) {
    link->break_now();
  }
}

Result<Mapping> Path::map(std::span<const LocalPiece> pieces) {
  Mapping mapping{.token = next_token_++};
  for (const LocalPiece& piece : pieces) {
    // The client's pieces are regions of the memory; the key is in the upper half of the address.
    mapping.segments.push_back({.address = piece.address & 0xFFFF'FFFF,
                                .key = RKey{static_cast<std::uint32_t>(piece.address >> 32)},
                                .length = piece.length});
  }
  mapped_[mapping.token] = {};
  return mapping;
}

Result<Mapping> Path::place_table(ByteSpan octets) {
  const Segment segment = world_.memory.allocate(octets.size());
  copy_bytes(world_.memory.at(segment), octets);
  const std::uint64_t token = next_token_++;
  mapped_[token] = {segment.key};
  return Mapping{.segments = {segment}, .token = token};
}

void Path::unmap(std::uint64_t token) {
  const auto found = mapped_.find(token);
  world_.expect(found != mapped_.end(), "memory is unmapped twice");
  if (found == mapped_.end()) {
    return;
  }
  for (const RKey key : found->second) {
    world_.memory.invalidate(key);
  }
  mapped_.erase(found);
}

void Path::submit(std::uint64_t block, std::optional<std::uint8_t> value) {
  const std::uint64_t id = next_id_++;
  Pending pending{.block = block, .written = value};
  const std::size_t pieces = world_.random.chance(1, 2) ? 1 : 4;
  Request request{.id = id,
                  .cdb = scsi::testing::cdb10(value ? 0x2A : 0x28, index_ * kBlocks + block, 1),
                  .direction = value ? Request::Direction::Out : Request::Direction::In};
  for (std::size_t i = 0; i < pieces; ++i) {
    const Segment segment = world_.memory.allocate(kBlockBytes / pieces);
    std::ranges::fill(world_.memory.at(segment), static_cast<std::byte>(value.value_or(0xEE)));
    request.memory.push_back({.address = std::uint64_t{segment.key.value()} << 32 | segment.address,
                              .length = segment.length});
    pending.memory.push_back(segment);
  }
  if (value && pieces == 1) {
    request.immediate = world_.memory.at(pending.memory.front());
  }
  const auto memory = pending.memory;
  busy_.insert(block);
  pending_.emplace(id, std::move(pending));
  if (!session.submit(std::move(request), world_.now)) {
    pending_.erase(id);
    busy_.erase(block);
  }
}

void Path::write(std::uint64_t block) {
  next_value_ = next_value_ == 0xED ? std::uint8_t{1} : static_cast<std::uint8_t>(next_value_ + 1);
  submit(block, next_value_);
}

void Path::read(std::uint64_t block) { submit(block, std::nullopt); }

void Path::abort_one() {
  if (!pending_.empty()) {
    auto chosen = pending_.begin();
    std::advance(chosen, world_.random.below(pending_.size()));
    std::ignore = session.abort(chosen->first, world_.now);
  }
}

void Path::handle_outcome(std::uint64_t id, const Outcome& outcome) {
  const auto found = pending_.find(id);
  world_.expect(found != pending_.end(), "a request ends twice");
  if (found == pending_.end()) {
    return;
  }
  ++world_.outcomes[outcome.kind];
  const Pending pending = std::move(found->second);
  pending_.erase(found);
  busy_.erase(pending.block);
  Contents& block = blocks[pending.block];
  if (pending.written) {
    if (outcome.is_good()) {
      block = {*pending.written};
    } else if (outcome.kind == Outcome::Kind::Aborted ||
               outcome.kind == Outcome::Kind::Interrupted) {
      block.insert(*pending.written);
    }
  } else if (outcome.is_good()) {
    const MutableByteSpan data = world_.memory.at(pending.memory.front());
    const auto value = std::to_integer<std::uint8_t>(data[0]);
    world_.expect(block.contains(value),
                  fmt::format("block {} of path {} has {}", pending.block, index_, value));
    block = {value};
  }
  for (const Segment& segment : pending.memory) {
    world_.memory.invalidate(segment.key);
  }
}

// ---- World ----------------------------------------------------------------------------------

World::World(std::uint64_t seed, const Scenario& chosen) : random(seed), scenario(chosen) {
  expect(
      target.add_port({.name = kPort, .target_port = id_of(kTargetNumber), .request_limit = kLimit})
          .has_value(),
      "a port");
  expect(target.set_enabled(kPort, true).has_value(), "enabled");
  expect(target.allow_anybody(kPort, true).has_value(), "open");
  for (std::size_t i = 0; i < paths.size(); ++i) {
    paths[i] = std::make_unique<Path>(*this, i);
    paths[i]->session.start(now);
  }
}

World::~World() {
  disk.device.holds = false;
  for (const auto& path : paths) {
    path->session.stop(now);
  }
  std::ignore = target.release_port(kPort, [] {});
  run_until(now + Duration::seconds(1));
  while (disk.device.release()) {
  }
  run_until(now + Duration::seconds(1));
}

void World::run_until(Instant end) {
  for (;;) {
    Instant next = events_.empty() ? Instant::never() : events_.begin()->first.first;
    for (const auto& path : paths) {
      next = std::min(next, path->session.deadline());
    }
    if (next > end) {
      break;
    }
    now = std::max(now, next);
    if (!events_.empty() && events_.begin()->first.first <= now) {
      const auto what = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      what();
    }
    for (const auto& path : paths) {
      path->session.handle_timeout(now);
    }
    check();
    target.collect();
  }
  now = end;
}

void World::check() {
  for (const ChannelId id : target.channel_ids()) {
    Channel& channel = *target.channel(id);
    channel.check_invariants();
    expect(channel.state() >= seen_[id], "a channel's state went backwards");
    seen_[id] = channel.state();
  }
  for (const auto& path : paths) {
    expect(path->session.credits() >= 0, "credits are negative");
    if (scenario.repeats == 0) {
      expect(path->session.violations() == 0, "a sound target was taken for a liar");
    }
  }
}

void World::move() {
  Path& path = *paths[random.below(paths.size())];
  const std::uint64_t block = random.below(Path::kBlocks);
  disk.device.holds = random.chance(1, 2);
  if (random.chance(1, 3)) {
    disk.device.release(random.below(1 + disk.device.waiting()));
  }
  if (!path.is_busy(block)) {
    if (random.chance(1, 2)) {
      path.write(block);
    } else {
      path.read(block);
    }
  }
  if (random.chance(scenario.aborts, 100)) {
    path.abort_one();
  }
  if (random.chance(scenario.breaks, scenario.moves) && path.link != nullptr) {
    path.link->break_now();
  }
  if (random.chance(scenario.port_changes, scenario.moves)) {
    const auto ids = target.channel_ids();
    if (!ids.empty()) {
      target.channel(ids[random.below(ids.size())])->disconnect();
    }
  }
  run_until(now + delay(random.chance(1, 20) ? 30'000 : 300));
}

/// Nothing breaks any more: everything that was begun ends, and every credit comes back.
void World::settle() {
  scenario.repeats = 0;
  for (int round = 0; round < 20; ++round) {
    disk.device.holds = false;
    while (disk.device.release()) {
    }
    run_until(now + Duration::milliseconds(200));
  }
  for (const auto& path : paths) {
    expect(path->pending() == 0, "a request has not ended");
    expect(path->session.state() == PathState::Live, "a path did not come back");
    expect(path->session.credits() == kLimit, "credits are lost, or made");
  }
  expect(target.channels() == paths.size(), "a dead channel is left");
  for (const auto& path : paths) {
    for (std::uint64_t block = 0; block < Path::kBlocks; ++block) {
      path->read(block);
      run_until(now + Duration::milliseconds(10));
    }
  }
}

std::vector<std::string> World::run() {
  const unsigned repeats = scenario.repeats;
  for (unsigned i = 0; i < scenario.moves && findings.empty(); ++i) {
    move();
  }
  if (findings.empty() && repeats == 0) {
    settle();
  }
  return findings;
}

}  // namespace weft::srp::testing
