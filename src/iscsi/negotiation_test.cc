#include "iscsi/negotiation.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::iscsi {
namespace {

/// What a target with `preferences` answers to one key.
[[nodiscard]] std::string answer(std::string_view key, std::string_view value,
                                 const Preferences& preferences = {},
                                 const NegotiationScene& scene = {}) {
  Negotiation negotiation{preferences, {}};
  TextWriter answers;
  if (!negotiation.take({key, value}, scene, answers)) {
    return "refused";
  }
  const std::string text = answers.text();
  return text.empty() ? "" : text.substr(text.find('=') + 1, text.size() - text.find('=') - 2);
}

TEST(Negotiation, AnswersEachKeyByItsRule) {  // RFC 7143 §13
  struct Case {
    std::string_view key;
    std::string_view value;
    std::string_view answer;
  };
  for (const Case& row : std::vector<Case>{
           {"HeaderDigest",                "CRC32C,None",           "CRC32C"       },
           {"HeaderDigest",                "None",                  "None"         },
           {"DataDigest",                  "X-other,None,CRC32C",   "None"         },
           {"DataDigest",                  "X-other",               "Reject"       },
           {"MaxConnections",              "1",                     "1"            },
           {"MaxConnections",              "65535",                 "8"            },
           {"MaxConnections",              "0",                     "Reject"       },
           {"InitialR2T",                  "No",                    "No"           },
           {"InitialR2T",                  "Yes",                   "Yes"          },
           {"InitialR2T",                  "Maybe",                 "Reject"       },
           {"ImmediateData",               "No",                    "No"           },
           {"ImmediateData",               "Yes",                   "Yes"          },
           {"MaxBurstLength",              "0x1000",                "4096"         },
           {"MaxBurstLength",              "16777216",              "Reject"       },
           {"FirstBurstLength",            "511",                   "Reject"       },
           {"DefaultTime2Wait",            "0",                     "2"            },
           {"DefaultTime2Wait",            "60",                    "60"           },
           {"DefaultTime2Retain",          "60",                    "20"           },
           {"MaxOutstandingR2T",           "16",                    "8"            },
           {"DataPDUInOrder",              "No",                    "Yes"          },
           {"DataSequenceInOrder",         "No",                    "Yes"          },
           {"ErrorRecoveryLevel",          "1",                     "1"            },
           {"ErrorRecoveryLevel",          "3",                     "Reject"       },
           {"TaskReporting",               "FastAbort,RFC3720",     "RFC3720"      },
           {"TaskReporting",               "FastAbort",             "Reject"       },
           {"iSCSIProtocolLevel",          "2",                     "2"            },
           {"TargetRecvDataSegmentLength", "8192",                  "NotUnderstood"},
           {"IFMarker",                    "Yes",                   "No"           },
           {"OFMarker",                    "No",                    "No"           },
           {"OFMarkInt",                   "1~65535",               "Reject"       },
           {"RDMAExtensions",              "Yes",                   "No"           },
           {"iSERHelloRequired",           "Yes",                   "Irrelevant"   },
           {"X-com.example.color",         "blue",                  "NotUnderstood"},
           {"MaxRecvDataSegmentLength",    "4096",                  ""             },
           {"MaxRecvDataSegmentLength",    "1",                     "refused"      },
           {"InitiatorAlias",              "me",                    ""             },
           {"TargetAlias",                 "an initiator has none", "Reject"       },
           {"SendTargets",                 "All",                   "Reject"       },
           {"CHAP_A",                      "5",                     "refused"      },
           {"MaxConnections",              "Irrelevant",            "refused"      },
  }) {
    EXPECT_EQ(answer(row.key, row.value), row.answer) << row.key << "=" << row.value;
  }
}

TEST(Negotiation, FollowsThePreferences) {
  Preferences preferences;
  preferences.header_digest = DigestPolicy::Always;
  preferences.values.immediate_data = false;
  preferences.values.data_pdu_in_order = false;
  preferences.data_digest = DigestPolicy::Never;
  EXPECT_EQ(answer("HeaderDigest", "None,CRC32C", preferences), "CRC32C");
  EXPECT_EQ(answer("HeaderDigest", "None", preferences), "Reject");
  EXPECT_EQ(answer("DataDigest", "CRC32C,None", preferences), "None");
  EXPECT_EQ(answer("ImmediateData", "Yes", preferences), "No");
  EXPECT_EQ(answer("DataPDUInOrder", "No", preferences), "No");
}

// RFC 7145 §5.1.3, §6.10: an initiator declares it, and a target may refuse it.
TEST(Negotiation, AHelloIsAgreedOnWhereBothEndsHaveOne) {
  Preferences preferences;
  preferences.values.rdma_extensions = true;
  EXPECT_EQ(answer("iSERHelloRequired", "Yes", preferences), "No");
  preferences.values.hello_required = true;
  EXPECT_EQ(answer("iSERHelloRequired", "Yes", preferences), "Yes");
  EXPECT_EQ(answer("iSERHelloRequired", "No", preferences), "No");
  EXPECT_EQ(answer("iSERHelloRequired", "Perhaps", preferences), "Reject");
  EXPECT_EQ(answer("iSERHelloRequired", "Yes", preferences, {.leading = false}), "Reject");
  EXPECT_EQ(answer("iSERHelloRequired", "Yes", preferences, {.role = Role::Initiator}), "Reject");
  Negotiation target{preferences, {}};
  TextWriter answers;
  EXPECT_EQ(target.agreed().hello_required, std::nullopt) << "nobody has said";
  ASSERT_TRUE(target.take({"iSERHelloRequired", "No"}, {}, answers));
  EXPECT_EQ(target.agreed().hello_required, false);
}

TEST(Negotiation, AHelloThatIsDeclaredWaitsForNoAnswer) {
  Preferences preferences;
  preferences.values.rdma_extensions = true;
  preferences.values.hello_required = true;
  for (const auto& [said, agreed] : {
           std::pair{"Yes",           true },
           std::pair{"No",            false},
           std::pair{"NotUnderstood", false},
           std::pair{"Irrelevant",    false},
           std::pair{"Reject",        false}
  }) {
    Negotiation negotiation{preferences, {}};
    TextWriter text;
    negotiation.offer("iSERHelloRequired", text);
    EXPECT_EQ(text.text(), TextWriter{}.add("iSERHelloRequired", "Yes").text());
    EXPECT_FALSE(negotiation.awaits_answers());
    EXPECT_EQ(negotiation.agreed().hello_required, true) << "as declared";
    ASSERT_TRUE(negotiation.take({"iSERHelloRequired", said}, {.role = Role::Initiator}, text))
        << said;
    EXPECT_EQ(negotiation.agreed().hello_required, agreed) << said;
  }
  Negotiation negotiation{preferences, {}};
  TextWriter text;
  negotiation.offer("iSERHelloRequired", text);
  EXPECT_FALSE(negotiation.take({"iSERHelloRequired", "Perhaps"}, {.role = Role::Initiator}, text));
}

TEST(Negotiation, TakesKeysOnlyWhereTheyMeanSomething) {
  const NegotiationScene later{.leading = false};
  EXPECT_EQ(answer("MaxConnections", "4", {}, later), "Reject");
  EXPECT_EQ(answer("HeaderDigest", "CRC32C", {}, later), "CRC32C");
  const NegotiationScene discovery{.discovery = true};
  EXPECT_EQ(answer("MaxBurstLength", "4096", {}, discovery), "Irrelevant");
  EXPECT_EQ(answer("DefaultTime2Wait", "4", {}, discovery), "4");
  const NegotiationScene full{.full_feature = true};
  EXPECT_EQ(answer("HeaderDigest", "CRC32C", {}, full), "Reject");
  EXPECT_EQ(answer("MaxRecvDataSegmentLength", "1024", {}, full), "");
}

TEST(Negotiation, RefusesAKeyThatComesTwice) {  // RFC 7143 §6.3
  const Preferences preferences;
  Negotiation negotiation{preferences, {}};
  TextWriter answers;
  EXPECT_TRUE(negotiation.take({"InitialR2T", "No"}, {}, answers).has_value());
  EXPECT_FALSE(negotiation.take({"InitialR2T", "No"}, {}, answers).has_value());
}

TEST(Negotiation, AnInitiatorBearsThatATargetRepeatsItself) {
  const Preferences preferences;
  Negotiation negotiation{preferences, {}};
  TextWriter answers;
  const NegotiationScene scene{.role = Role::Initiator};
  const TextPair said{"X-com.example.size", "8192"};
  EXPECT_TRUE(negotiation.take(said, scene, answers).has_value());
  EXPECT_TRUE(negotiation.take(said, scene, answers).has_value());
  EXPECT_EQ(answers.text(), TextWriter{}.add(said.key, "NotUnderstood").text());  // once
  EXPECT_FALSE(negotiation.take({said.key, "4096"}, scene, answers).has_value());
}

TEST(Negotiation, KeepsDefaultsOfWhatNobodyMentions) {
  const Preferences preferences;
  const Negotiation negotiation{preferences, {}};
  EXPECT_EQ(negotiation.agreed(), Parameters{});
}

constexpr auto kOffered = std::to_array<std::string_view>(
    {"HeaderDigest", "DataDigest", "MaxConnections", "InitialR2T", "ImmediateData",
     "MaxBurstLength", "FirstBurstLength", "DefaultTime2Wait", "DefaultTime2Retain",
     "MaxOutstandingR2T", "DataPDUInOrder", "DataSequenceInOrder", "ErrorRecoveryLevel"});

TEST(Negotiation, BothEndsAgreeOnTheSame) {
  Preferences initiator_wants;
  initiator_wants.values.max_burst_length = 4096;
  initiator_wants.values.initial_r2t = true;
  initiator_wants.header_digest = DigestPolicy::Always;
  const Preferences target_wants;
  Negotiation initiator{initiator_wants, {}};
  Negotiation target{target_wants, {}};
  TextWriter offers;
  for (const std::string_view key : kOffered) {
    initiator.offer(key, offers);
  }
  TextWriter answers;
  const auto offered = parse_text(offers.text());
  ASSERT_TRUE(offered.has_value());
  for (const TextPair& pair : *offered) {
    ASSERT_TRUE(target.take(pair, {}, answers).has_value()) << pair.key;
  }
  TextWriter none;
  const auto answered = parse_text(answers.text());
  ASSERT_TRUE(answered.has_value());
  for (const TextPair& pair : *answered) {
    ASSERT_TRUE(initiator.take(pair, {.role = Role::Initiator}, none).has_value()) << pair.key;
  }
  EXPECT_TRUE(none.empty());
  EXPECT_FALSE(initiator.awaits_answers());
  EXPECT_EQ(initiator.agreed(), target.agreed());
  EXPECT_EQ(target.agreed().max_burst_length, 4096U);
  EXPECT_TRUE(target.agreed().header_digest);
}

TEST(Negotiation, RefusesAnswersThatTheOfferDoesNotAllow) {
  Preferences wants;
  wants.values.initial_r2t = true;
  wants.values.immediate_data = false;
  for (const TextPair& wrong : TextPairs{
           {"MaxBurstLength",   "16777215"},
           {"MaxBurstLength",   "many"    },
           {"DefaultTime2Wait", "1"       },
           {"InitialR2T",       "No"      },
           {"ImmediateData",    "Yes"     },
           {"HeaderDigest",     "X-own"   },
           {"MaxBurstLength",   "Reject"  },
  }) {
    Negotiation negotiation{wants, {}};
    TextWriter text;
    negotiation.offer(wrong.key, text);
    const bool decides = wrong.key == "InitialR2T" || wrong.key == "ImmediateData";  // §6.2.2
    EXPECT_EQ(negotiation.awaits_answers(), !decides);
    EXPECT_FALSE(negotiation.take(wrong, {.role = Role::Initiator}, text).has_value())
        << wrong.key << "=" << wrong.value;
  }
}

// RFC 7143 §6.2.2: AND with No and OR with Yes need no answer, as Linux's target has it; all else
// does.
TEST(Negotiation, AnOfferThatDecidesNeedsNoAnswer) {
  struct Row {
    const char* key;
    bool Parameters::* flag;
    bool offered;
    bool needs_answer;
  };
  constexpr Row kRows[] = {
      {"DataPDUInOrder", &Parameters::data_pdu_in_order, true,  false},
      {"DataPDUInOrder", &Parameters::data_pdu_in_order, false, true },
      {"ImmediateData",  &Parameters::immediate_data,    false, false},
      {"ImmediateData",  &Parameters::immediate_data,    true,  true },
  };
  for (const Row& row : kRows) {
    Preferences preferences;
    preferences.values.*row.flag = row.offered;
    Negotiation negotiation{preferences, Parameters{}};
    TextWriter text;
    negotiation.offer(row.key, text);
    EXPECT_EQ(negotiation.awaits_answers(), row.needs_answer) << row.key;
    EXPECT_EQ(negotiation.awaited(), row.needs_answer ? row.key : "");
    if (!row.needs_answer) {
      EXPECT_EQ(negotiation.agreed().*row.flag, row.offered) << row.key;
    }
    // An answer that comes all the same may say nothing else.
    const TextPair wrong{row.key, row.offered ? "No" : "Yes"};
    EXPECT_EQ(negotiation.take(wrong, {.role = Role::Initiator}, text).has_value(),
              row.needs_answer)
        << row.key;
  }
}

}  // namespace
}  // namespace weft::iscsi
