#include "iscsi/testing/world.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "scsi/big_endian.h"

namespace weft::iscsi::testing {

namespace {

constexpr std::uint32_t kBlockBytes = 512;
constexpr Duration kRealm =
    Duration::seconds(400);  // policy: after the last move all must end in it
const ChapAccount kInitiatorAccount{.name = "h1", .secret = "secret-of-h1-0"};
const ChapAccount kTargetAccount{.name = "disks", .secret = "another-secret"};

[[nodiscard]] Preferences preferences_by(Random& random, const Scenario& scenario) {
  Preferences preferences = initiator_preferences();
  Parameters& values = preferences.values;
  values.initial_r2t = random.chance(1, 2);
  values.immediate_data = random.chance(1, 2);
  values.max_recv_data_segment_length = static_cast<std::uint32_t>(512 << random.below(5));
  values.max_burst_length = static_cast<std::uint32_t>(1024 << random.below(5));
  values.first_burst_length =
      std::min(values.max_burst_length, static_cast<std::uint32_t>(512 << random.below(6)));
  values.max_outstanding_r2t = static_cast<std::uint32_t>(1 + random.below(4));
  values.max_connections = scenario.connections;
  values.error_recovery_level = scenario.level;
  preferences.header_digest = scenario.digests ? DigestPolicy::Always : DigestPolicy::Never;
  preferences.data_digest = preferences.header_digest;
  return preferences;
}

}  // namespace

/// One end of a connection, which loses PDUs of the full feature phase.
class LossyDatamover final : public Datamover {
 public:
  LossyDatamover(World& world, StreamDatamover& stream) : world_(world), stream_(stream) {}

  void send_control(OutgoingPdu pdu) override {
    if (!enabled_ || !world_.loses(pdu)) {
      stream_.send_control(std::move(pdu));
    }
  }
  void put_data(OutgoingPdu data_in) override { send_control(std::move(data_in)); }
  void get_data(OutgoingPdu r2t, MutableByteSpan /*into*/) override {
    send_control(std::move(r2t));
  }
  void enable(bool header_digest, bool data_digest, std::size_t max_receive_bytes) override {
    enabled_ = true;
    stream_.enable(header_digest, data_digest, max_receive_bytes);
  }
  void terminate(Ending ending, std::string_view reason) override {
    stream_.terminate(ending, reason);
  }
  [[nodiscard]] bool is_enabled() const { return enabled_; }

 private:
  World& world_;
  StreamDatamover& stream_;
  bool enabled_{};
};

/// One connection between its ends.
struct Link {
  explicit Link(World& world) : initiator_end(world, initiator), target_end(world, target) {}

  StreamDatamover initiator;
  StreamDatamover target;
  LossyDatamover initiator_end;
  LossyDatamover target_end;
  std::uint16_t cid{};
  Player* player{};           // nothing: it has been told of the loss
  DatamoverClient* client{};  // the same of the target
  std::deque<std::byte> to_target;
  std::deque<std::byte> to_initiator;
  bool is_cut{};
  Instant player_learns{Instant::never()};
  Instant client_learns{Instant::never()};
};

/// An initiator with blocks of its own, which knows what each may contain.
class Player final : public InitiatorEnvironment, public InitiatorClient {
 public:
  struct Operation {
    InitiatorCommand command;
    std::uint64_t lba{};
    std::uint64_t blocks{};
    std::uint64_t version{};  // written; 0: it reads
    bool submitted{};
  };

  Player(World& world, unsigned number, const InitiatorOptions& options)
      : session(options, *this), world_(world), base_(number * World::kBlocks) {
    for (std::uint64_t i = 0; i < World::kBlocks; ++i) {
      possible_.push_back({0});
    }
  }

  void connect(std::uint16_t cid, std::string_view /*address*/) override { wants.insert(cid); }
  void cancel_connect(std::uint16_t cid) override { wants.erase(cid); }
  void handle_state(SessionState /*state*/, std::string_view /*reason*/) override {}
  void handle_scsi_event(std::uint64_t /*lun*/, ByteSpan /*sense*/) override {}
  [[nodiscard]] ChapLibrary& chap_library() override { return world_.chap_; }

  // Some operation whose blocks no other one of this player touches.
  bool submit_some() {
    Random& random = world_.random_;
    const std::uint64_t blocks = 1 + random.below(64);
    const std::uint64_t lba = random.below(World::kBlocks - blocks + 1);
    for (const auto& other : operations_) {
      if (other->lba < lba + blocks && lba < other->lba + other->blocks) {
        return false;
      }
    }
    submit(lba, blocks, random.chance(1, 2));
    return true;
  }
  void submit(std::uint64_t lba, std::uint64_t blocks, bool writes) {
    auto operation = std::make_unique<Operation>();
    operation->lba = lba;
    operation->blocks = blocks;
    operation->version = writes ? ++versions_ : 0;
    InitiatorCommand& command = operation->command;
    command.client = this;
    command.cdb = scsi::testing::cdb16(writes ? 0x8A : 0x88, base_ + lba, blocks);
    SharedBuffer data{blocks * kBlockBytes};
    if (writes) {
      fill(data.octets(), *operation);
      command.data_out = data;
    } else {
      std::ranges::fill(data.octets(), std::byte{0xEE});
      command.data_in = data;
    }
    operations_.push_back(std::move(operation));
    session.submit(command, world_.now_);
  }
  void abort_some() {
    if (!operations_.empty()) {
      session.abort(operations_[world_.random_.below(operations_.size())]->command, world_.now_);
    }
  }
  [[nodiscard]] bool is_idle() const { return operations_.empty(); }

  void handle_outcome(InitiatorCommand& command, const InitiatorOutcome& outcome,
                      Instant /*now*/) override {
    const auto found = std::ranges::find_if(
        operations_, [&](const auto& entry) { return &entry->command == &command; });
    if (found == operations_.end()) {
      world_.find("a command has ended twice");
      return;
    }
    const std::unique_ptr<Operation> operation = std::move(*found);
    operations_.erase(found);
    ++world_.outcomes[outcome.kind];
    if (!outcome.is_good() && outcome.kind != InitiatorOutcome::Kind::Answered &&
        !world_.has_faults()) {
      world_.find(fmt::format("a command ends by itself, as {}", static_cast<int>(outcome.kind)));
    }
    judge(*operation, outcome);
  }

  InitiatorSession session;
  std::set<std::uint16_t> wants;  // CIDs

 private:
  void fill(MutableByteSpan octets, const Operation& operation) const {
    for (std::uint64_t i = 0; i < operation.blocks; ++i) {
      for (std::size_t at = 0; at < kBlockBytes; at += 16) {
        scsi::store_number(octets, i * kBlockBytes + at, 8, base_ + operation.lba + i);
        scsi::store_number(octets, i * kBlockBytes + at + 8, 8, operation.version);
      }
    }
  }
  // The version that a block has; nothing if it is no block of ours as a whole.
  [[nodiscard]] std::optional<std::uint64_t> version_of(ByteSpan block, std::uint64_t lba) const {
    const std::uint64_t version = scsi::load64(block, 8);
    for (std::size_t at = 0; at < kBlockBytes; at += 16) {
      const std::uint64_t place = version == 0 ? 0 : base_ + lba;
      if (scsi::load64(block, at) != place || scsi::load64(block, at + 8) != version) {
        return std::nullopt;
      }
    }
    return version;
  }
  void judge(const Operation& operation, const InitiatorOutcome& outcome) {
    if (operation.version != 0) {
      const bool perhaps = outcome.kind == InitiatorOutcome::Kind::Interrupted ||
                           outcome.kind == InitiatorOutcome::Kind::Aborted ||
                           (outcome.kind == InitiatorOutcome::Kind::Answered &&
                            outcome.status == 0x40);  // TASK ABORTED
      for (std::uint64_t i = operation.lba; i < operation.lba + operation.blocks; ++i) {
        if (outcome.is_good()) {
          possible_[i] = {operation.version};
        } else if (perhaps) {
          possible_[i].insert(operation.version);
        }
      }
      return;
    }
    if (!outcome.is_good()) {
      return;
    }
    if (outcome.data_in_bytes != operation.blocks * kBlockBytes && outcome.residual == 0) {
      world_.find("a read is GOOD, and not all has come");
    }
    const ByteSpan data = operation.command.data_in.octets();
    for (std::uint64_t i = 0; i < operation.blocks; ++i) {
      std::set<std::uint64_t>& possible = possible_[operation.lba + i];
      const auto version =
          version_of(data.subspan(i * kBlockBytes, kBlockBytes), operation.lba + i);
      if (!version || !possible.contains(*version)) {
        world_.find(fmt::format("block {} of {} has version {}, which it may not have",
                                operation.lba + i, base_, version.value_or(~std::uint64_t{0})));
        return;
      }
      possible = {*version};  // what is not there now may not come later
    }
  }

  World& world_;
  std::uint64_t base_;
  std::uint64_t versions_{};
  std::vector<std::set<std::uint64_t>> possible_;
  std::vector<std::unique_ptr<Operation>> operations_;
};

World::World(std::uint64_t seed, const Scenario& scenario)
    : random_(seed),
      scenario_(scenario),
      left_(scenario),
      ram_(*scsi::RamDevice::create({.bytes = kPlayers * kBlocks * kBlockBytes})),
      disk_(*ram_, ram_->geometry()),
      server_({.command_window = 2}, *this) {
  disk_.holds = true;
  const scsi::PortOptions port{.id = scsi::PortId{1}, .protocol = 5, .designator = {}};
  WEFT_ASSERT(scsi_.add_port(port).has_value(), "the first port");
  WEFT_ASSERT(scsi_.add_unit({.lun = scsi::Lun{0}}, disk_).has_value(), "the first unit");
  node_.name = "iqn.2026-01.org.example:disks";
  node_.scsi = &scsi_;
  if (scenario.chap) {
    node_.chap = {.peers = {kInitiatorAccount}, .own = kTargetAccount};
  }
  WEFT_ASSERT(server_.add_node(node_).has_value(), "the first node");
  for (unsigned i = 0; i < kPlayers; ++i) {
    InitiatorOptions options;
    options.name = fmt::format("iqn.2026-01.org.example:h{}", i);
    options.target = node_.name;
    options.isid += i;
    options.preferences = preferences_by(random_, scenario);
    options.fast_fail = Duration::seconds(5 + static_cast<std::int64_t>(random_.below(30)));
    options.fast_fail = scenario.patient ? Duration::seconds(300) : options.fast_fail;
    // A command whose connections are cut one after the other takes longer than users wait; that it
    // is not lost is what is looked for.
    options.command_timeout =
        scenario.level == 2 ? Duration::seconds(120) : options.command_timeout;
    if (scenario.chap) {
      options.chap = {.peers = {kTargetAccount}, .own = kInitiatorAccount};
    }
    players_.push_back(std::make_unique<Player>(*this, i, options));
    players_.back()->session.start(now_);
  }
}

World::~World() {
  for (const auto& link : links_) {
    if (link->client != nullptr) {
      std::exchange(link->client, nullptr)->handle_lost("the end", now_);
    }
    if (link->player != nullptr) {
      std::exchange(link->player, nullptr)->session.client(link->cid).handle_lost("the end", now_);
    }
  }
  while (disk_.release()) {
  }
  server_.handle_completions(now_);
}

void World::find(const std::string& what) {
  findings_.push_back(fmt::format("at {} ms: {}", now_.since_start().milliseconds(), what));
}

void World::open(Player& player, std::uint16_t cid) {
  auto link = std::make_unique<Link>(*this);
  link->player = &player;
  link->cid = cid;
  link->initiator.set_client(player.session.client(cid));
  link->client = server_.accept(link->target_end, now_);
  WEFT_ASSERT(link->client != nullptr, "there are few connections");
  link->target.set_client(*link->client);
  Link& opened = *link;
  links_.push_back(std::move(link));
  player.session.handle_connected(cid, opened.initiator_end, now_);
}

bool World::loses(const OutgoingPdu& pdu) {
  const auto opcode = pdu.basic_header().opcode;
  const bool is_ping =
      opcode == wire::iscsi::Opcode::NopIn || opcode == wire::iscsi::Opcode::NopOut;
  if (is_ping || left_.losses == 0 || !random_.chance(1, 12)) {
    return false;
  }
  --left_.losses;
  return true;
}

RecoveryCounts World::recoveries() const {
  RecoveryCounts sum;
  for (const auto& player : players_) {
    const RecoveryCounts& one = player->session.recoveries();
    sum.snacks += one.snacks;
    sum.commands_resent += one.commands_resent;
    sum.tasks_reassigned += one.tasks_reassigned;
  }
  return sum;
}

void World::carry_one_way(StreamDatamover& from, std::deque<std::byte>& line) {
  std::array<ByteSpan, 8> pieces;
  const std::size_t count = from.gather(pieces);
  std::size_t octets = 0;
  for (const ByteSpan piece : std::span{pieces}.first(count)) {
    line.insert(line.end(), piece.begin(), piece.end());
    octets += piece.size();
  }
  from.consume(octets);
}

void World::carry(Link& link) {
  if (link.is_cut) {
    return;
  }
  carry_one_way(link.initiator, link.to_target);
  carry_one_way(link.target, link.to_initiator);
  const bool ends = (link.initiator.is_ended() && link.initiator.output_bytes() == 0) ||
                    (link.target.is_ended() && link.target.output_bytes() == 0);
  if (ends && link.to_target.empty() && link.to_initiator.empty()) {
    cut(link);
  } else if (link.initiator.is_ended() && link.initiator.output_bytes() == 0) {
    link.to_initiator.clear();
  } else if (link.target.is_ended() && link.target.output_bytes() == 0) {
    link.to_target.clear();
  }
}

void World::cut(Link& link) {
  link.is_cut = true;
  const auto later = [this] {
    return now_ + (random_.chance(1, 2)
                       ? Duration{}
                       : Duration::milliseconds(static_cast<std::int64_t>(random_.below(8000))));
  };
  link.player_learns = later();
  link.client_learns = later();
}

// Some of what is under way, in order; nothing is cut off, but by a cut.
void World::deliver(Link& link) {
  const auto take = [this](std::deque<std::byte>& line) {
    const std::size_t most = random_.below(4) == 0 ? line.size() : random_.below(3000);
    const auto end = line.begin() + static_cast<std::ptrdiff_t>(std::min(most, line.size()));
    std::vector<std::byte> octets(line.begin(), end);
    line.erase(line.begin(), end);
    return octets;
  };
  if (link.client != nullptr && random_.chance(2, 3)) {
    link.target.receive(take(link.to_target), now_);
  }
  if (link.player != nullptr && random_.chance(2, 3)) {
    link.initiator.receive(take(link.to_initiator), now_);
  }
}

void World::fire(Link& link) {
  if (now_ >= link.player_learns && link.player != nullptr) {
    std::exchange(link.player, nullptr)->session.client(link.cid).handle_lost("reset", now_);
  }
  if (now_ >= link.client_learns && link.client != nullptr) {
    std::exchange(link.client, nullptr)->handle_lost("reset", now_);
  }
}

void World::fault() {
  const auto spend = [this](unsigned& left) {
    if (left == 0 || !random_.chance(left, 4 * left_.moves + left)) {
      return false;
    }
    --left;
    return true;
  };
  Link* link = nullptr;
  if (!links_.empty()) {
    link = links_[random_.below(links_.size())].get();
  }
  Player& player = *players_[random_.below(kPlayers)];
  if (link != nullptr && !link->is_cut && spend(left_.cuts)) {
    cut(*link);
  }
  // Digests guard what comes after the login.
  if (link != nullptr && !link->is_cut && link->initiator_end.is_enabled() &&
      link->target_end.is_enabled()) {
    std::deque<std::byte>& line = random_.chance(1, 2) ? link->to_target : link->to_initiator;
    if (!line.empty() && spend(left_.damages)) {
      line[random_.below(line.size())] ^= std::byte{1};
    }
  }
  if (spend(left_.aborts)) {
    player.abort_some();
  }
  if (spend(left_.resets)) {
    player.session.manage(wire::iscsi::TaskManagementFunction::LogicalUnitReset, 0, {}, now_);
  }
  if (spend(left_.reconfigurations)) {
    WEFT_ASSERT(server_.remove_node(node_.name, now_).has_value(), "it is there");
    WEFT_ASSERT(server_.add_node(node_).has_value(), "it was removed");
  }
}

void World::settle() {
  if (std::exchange(wakes_, false)) {
    server_.handle_completions(now_);
  }
}

void World::step() {
  now_ = now_ + Duration::microseconds(static_cast<std::int64_t>(1 + random_.below(20'000)));
  for (const auto& player : players_) {
    if (player->session.state() == SessionState::Idle) {
      player->session.start(now_);  // the first login was cut off
    }
    for (const std::uint16_t cid : std::exchange(player->wants, {})) {
      open(*player, cid);
    }
  }
  if (left_.moves != 0 && players_[random_.below(kPlayers)]->submit_some()) {
    --left_.moves;
  }
  fault();
  for (std::size_t i = 0; i < links_.size(); ++i) {
    carry(*links_[i]);
    deliver(*links_[i]);
    fire(*links_[i]);
  }
  std::erase_if(
      links_, [](const auto& link) { return link->player == nullptr && link->client == nullptr; });
  while (disk_.waiting() != 0 && random_.chance(1, 2)) {
    disk_.release(random_.below(disk_.waiting()));
  }
  settle();
  if (now_ >= server_.deadline()) {
    server_.handle_timeout(now_);
  }
  for (const auto& player : players_) {
    if (now_ >= player->session.deadline()) {
      player->session.handle_timeout(now_);
    }
  }
  settle();
}

std::vector<std::string> World::run() {
  const auto idle = [this] {
    return std::ranges::all_of(players_, [](const auto& player) { return player->is_idle(); });
  };
  while (left_.moves != 0 && findings_.empty()) {
    step();
  }
  left_ = Scenario{.moves = 0};
  for (const Instant end = now_ + kRealm; now_ < end && !idle() && findings_.empty();) {
    step();
  }
  // Everybody is back, and reads what there is.
  const auto live = [](const auto& player) {
    return player->session.state() == SessionState::Live;
  };
  for (const Instant end = now_ + kRealm;
       now_ < end && !std::ranges::all_of(players_, live) && findings_.empty();) {
    step();
  }
  if (!idle() && findings_.empty()) {
    find("a command has not ended");
  }
  for (unsigned round = 0; round < 2 && findings_.empty(); ++round) {  // the first meets attentions
    for (const auto& player : players_) {
      for (std::uint64_t lba = 0; lba < kBlocks; lba += 32) {
        player->submit(lba, 32, false);
      }
    }
    for (const Instant end = now_ + kRealm; now_ < end && !idle() && findings_.empty();) {
      step();
    }
  }
  if (findings_.empty() && !std::ranges::all_of(players_, live)) {
    find("an initiator does not come back");
  }
  return findings_;
}

}  // namespace weft::iscsi::testing
