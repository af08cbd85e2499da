// Three programs with libumad2sim on the nodes of a fabric: requests and MADs as datagrams,
// processed as by the server but without sockets. Checks that answers belong to requests, that
// returned MADs were sent, and that open requests are bounded.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/testing/pieces.h"
#include "daemon/ibsim/client.h"
#include "daemon/ibsim/location.h"
#include "daemon/ibsim/messages.h"
#include "daemon/ibsim/server.h"
#include "fabric/topology.h"
#include "mad/testing/script.h"
#include "node/fabric.h"
#include "wire/mad/mad.h"

namespace weft::daemon {
namespace {

using mad::require;

constexpr fuzz::PieceFormat kFormat{.head_octets = 2};
constexpr std::size_t kQuestionBytes = sizeof(IbsimControl);
constexpr std::size_t kMadAt = sizeof(IbsimPacket) - wire::kMadBytes;

/// Reused for many inputs; a MAD that writes causes a new one for the next input.
struct World {
  std::unique_ptr<node::Fabric> fabric = *node::Fabric::create(*fabric::generate("star:2"), {});
  Instant now{Duration::seconds(1)};
  unsigned inputs{};
  bool is_written{};
};

struct Program {
  std::optional<fabric::PortIndex> port;
  std::unique_ptr<IbsimClient> client;
};

class Game {
 public:
  explicit Game(World& world) : world_(world) {}

  void play(std::span<const std::uint8_t> input) {
    for (const fuzz::Piece& piece : fuzz::split(input, kFormat)) {
      const std::uint8_t who = piece.head.front();
      Program& program = programs_.at(who % programs_.size());
      world_.now = world_.now + Duration::milliseconds(who / 16);
      const ByteSpan datagram = std::as_bytes(std::span{piece.message});
      if ((who & 8) != 0) {
        send(program, datagram);
      } else {
        ask(program, datagram);
      }
      carry();
    }
  }

 private:
  void ask(Program& program, ByteSpan datagram) {
    auto question = read_ibsim<IbsimControl>(datagram);
    require(question.has_value() == (datagram.size() == kQuestionBytes));
    if (!question || question->magic != IbsimControl::kMagic) {
      return;
    }
    if (question->question == IbsimRequest::Connect) {
      return connect(program, *question);
    }
    if (program.client == nullptr) {
      return;
    }
    if (question->question == IbsimRequest::Disconnect) {
      program.client.reset();
    } else if (question->question == IbsimRequest::IsSm) {
      set_sm(program, data_of<std::uint32_t>(*question) != 0);
    } else {
      const IbsimControl before = *question;
      const bool is_answered = answer_ibsim_request(*world_.fabric, *program.port, *question);
      require(question->magic == before.magic && question->client == before.client);
      require(is_answered || question->data == before.data);
    }
  }

  void connect(Program& program, const IbsimControl& question) {
    auto said = data_of<IbsimConnect>(question);
    const auto port = find_ibsim_port(*world_.fabric, name_in(said));
    require(port.has_value() || !port.error().reason.empty());
    if (!port) {
      return;
    }
    node::ManagementPort& management = world_.fabric->management().port(*port);
    program.port = *port;
    program.client =
        std::make_unique<IbsimClient>(node::UmadPortAccess{.smi = management.smi(),
                                                           .gsi = management.gsi(),
                                                           .tables = world_.fabric->builder(),
                                                           .port = *port});
    set_sm(program, said.is_sm != 0);
    const std::string name = name_in(said);
    set_name(said, name);
    require(name_in(said) == name);
  }

  void set_sm(Program& program, bool is_sm) {
    const auto set = program.client->set_sm(is_sm, world_.now);
    require(set ? program.client->is_sm() == is_sm : !set.error().reason.empty());
  }

  /// Processes a datagram of the right size, zero-extending the input.
  void send(Program& program, ByteSpan message) {
    if (program.client == nullptr) {
      return;
    }
    std::array<std::byte, sizeof(IbsimPacket)> datagram{};
    copy_bytes(datagram, message.first(std::min(message.size(), datagram.size())));
    const bool is_whole = message.size() != kQuestionBytes;  // some have another size
    const auto header = wire::unpack<wire::MadHeader>(
        std::span{datagram}.subspan<kMadAt, wire::kSizeOf<wire::MadHeader>>());
    const bool writes = header.method == wire::MadMethod::Set;
    const ByteSpan whole{datagram};
    const bool is_taken =
        program.client->handle(is_whole ? whole : whole.first(message.size()), world_.now);
    require(is_whole || !is_taken);
    world_.is_written = world_.is_written || (is_taken && writes);
    require(program.client->open_requests() <= IbsimClient::kMaxOpen);
    world_.fabric->management().wake(*program.port);
  }

  void carry() {
    for (int turn = 0; turn < 16 && world_.fabric->run_management(world_.now); ++turn) {
    }
    for (Program& program : programs_) {
      for (unsigned read = 0; program.client != nullptr && read < 64; ++read) {
        const std::size_t open = program.client->open_requests();
        const auto packet = program.client->poll();
        if (!packet) {
          break;
        }
        require(swapped(packet->length_be) <= wire::kMadBytes);
        require(packet->status_be == 0 || program.client->open_requests() < open);
      }
    }
  }

  World& world_;
  std::array<Program, 3> programs_;
};

[[nodiscard]] fuzz::Piece make_question(Random& random) {
  constexpr std::array kNames = {"h1", "h2", "s1", "", "H-2", "S-200001", "nobody"};
  IbsimControl question{.question = static_cast<IbsimRequest>(random.below(12))};
  if (random.chance(1, 2)) {
    question.question = IbsimRequest::Connect;
    IbsimConnect connect{.is_sm = static_cast<std::uint32_t>(random.below(2))};
    set_name(connect, kNames.at(random.below(kNames.size())));
    set_data(question, connect);
  } else {
    question.data.front() = static_cast<std::byte>(random.below(4));
  }
  const auto bytes = write_ibsim(question);
  fuzz::Piece piece{.head = {static_cast<std::uint8_t>(random() & 0xF7)}, .message = {}};
  std::ranges::transform(bytes, std::back_inserter(piece.message),
                         [](std::byte each) { return std::to_integer<std::uint8_t>(each); });
  return piece;
}

[[nodiscard]] fuzz::Piece make_mad(Random& random) {
  constexpr std::array kClasses = {wire::ManagementClass::SubnLidRouted,
                                   wire::ManagementClass::SubnDirectedRoute,
                                   wire::ManagementClass::SubnAdm, wire::ManagementClass::Perf};
  constexpr std::array<std::uint16_t, 6> kAttributes = {0x10, 0x11, 0x12, 0x15, 0x20, 0x35};
  const wire::ManagementClass mgmt_class = kClasses.at(random.below(kClasses.size()));
  const bool is_sa = mgmt_class == wire::ManagementClass::SubnAdm;
  const bool is_smp = !is_sa && mgmt_class != wire::ManagementClass::Perf;
  IbsimPacket packet{
      .dlid_be = lid_to_ibsim(mgmt_class == wire::ManagementClass::SubnDirectedRoute
                                  ? kPermissiveLid
                                  : Lid{static_cast<std::uint32_t>(1 + random.below(4))}),
      .dqp_be = swapped(is_smp ? 0U : 1U)};
  packet.length_be = swapped(std::uint64_t{packet.mad.size()});
  const wire::MadHeader header{.mgmt_class = mgmt_class,
                               .class_version = static_cast<std::uint8_t>(is_sa ? 2 : 1),
                               .method = static_cast<wire::MadMethod>(1 + random.below(3)),
                               .transaction_id = random.below(4),
                               .attribute_id = kAttributes.at(random.below(kAttributes.size()))};
  copy_bytes(packet.mad, wire::pack(header));
  if (mgmt_class == wire::ManagementClass::SubnDirectedRoute) {
    constexpr std::size_t kLidsAt = 32;  // DrSLID, DrDLID
    std::fill_n(packet.mad.begin() + kLidsAt, 4, std::byte{0xFF});
  }
  const auto bytes = write_ibsim(packet);
  fuzz::Piece piece{.head = {static_cast<std::uint8_t>(random() | 8)}, .message = {}};
  std::ranges::transform(bytes, std::back_inserter(piece.message),
                         [](std::byte each) { return std::to_integer<std::uint8_t>(each); });
  constexpr std::size_t kSent = 96;
  piece.message.resize(kSent);
  return piece;
}

[[nodiscard]] fuzz::Piece make_piece(Random& random) {
  return random.chance(1, 3) ? make_question(random) : make_mad(random);
}

void use_place(std::span<const std::uint8_t> input) {
  const std::string text(input.begin(), input.end());
  const auto place = IbsimLocation::read(text);
  require(place.has_value() || !place.error().reason.empty());
  if (place) {
    static_cast<void>(place->is_of(1, 0x1'0000));
  }
  static_cast<void>(guid_in_ibsim_name(text));
}

void run(std::span<const std::uint8_t> input) {
  static auto world = std::make_unique<World>();
  constexpr unsigned kMaxInputs = 256;  // limits what earlier inputs can leave behind
  if (world->is_written || ++world->inputs == kMaxInputs) {
    world = std::make_unique<World>();
  }
  Game{*world}.play(input);
}

}  // namespace
}  // namespace weft::daemon

/// The input consists of pieces: an octet for the program, the kind of datagram and the time before
/// it; an octet for the length; the datagram. A short input is also used as an IbsimLocation.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kPlaceBytes = 20;
  if (size < kPlaceBytes) {
    weft::daemon::use_place({data, size});
  }
  weft::daemon::run({data, size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return weft::fuzz::mutate_pieces({data, most}, size, seed, weft::daemon::kFormat,
                                   weft::daemon::make_piece);
}
