#include "iscsi/write_sequences.h"

#include <gtest/gtest.h>

#include "wire/iscsi/opcode.h"

namespace weft::iscsi {
namespace {

using wire::iscsi::kNoTag;
using enum DataOutVerdict;

[[nodiscard]] Parameters parameters() {
  Parameters values;
  values.max_burst_length = 4096;
  values.first_burst_length = 2048;
  values.max_outstanding_r2t = 2;
  return values;
}

TEST(WriteSequences, AskForAllThatDoesNotComeUnasked) {  // RFC 7143 §11.8
  WriteSequences data{10000, 512, false, parameters()};
  const auto first = data.next_request(1);
  const auto second = data.next_request(2);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(data.next_request(3).has_value()) << "MaxOutstandingR2T";
  EXPECT_EQ(first->offset, 512U);
  EXPECT_EQ(first->bytes, 4096U);
  EXPECT_EQ(first->r2t_sn, 0U);
  EXPECT_EQ(second->offset, 4608U);
  EXPECT_EQ(second->r2t_sn, 1U);
  EXPECT_EQ(data.take({1, 0, 512, 4000, false}), Stored);
  EXPECT_EQ(data.take({2, 0, 4608, 4096, true}), Stored);
  const auto third = data.next_request(3);
  ASSERT_TRUE(third.has_value());
  EXPECT_EQ(third->bytes, 10000U - 8704);
  EXPECT_EQ(data.take({1, 1, 4512, 96, true}), Stored);
  EXPECT_FALSE(data.is_complete());
  EXPECT_TRUE(data.take_fetched(3)) << "by the datamover";
  EXPECT_FALSE(data.take_fetched(3));
  EXPECT_TRUE(data.is_complete());
}

TEST(WriteSequences, WaitForTheEndOfUnsolicitedData) {
  WriteSequences data{4096, 512, true, parameters()};
  EXPECT_FALSE(data.next_request(1).has_value());
  EXPECT_EQ(data.take({kNoTag, 0, 512, 512, false}), Stored);
  EXPECT_EQ(data.take({kNoTag, 1, 1024, 512, true}), Stored) << "less than FirstBurstLength";
  const auto rest = data.next_request(1);
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->offset, 1536U);
  EXPECT_EQ(rest->bytes, 2560U);
  EXPECT_EQ(data.take({kNoTag, 2, 1536, 512, true}), Unexpected);
}

TEST(WriteSequences, RefuseWhatIsNotAskedFor) {  // RFC 7143 §7.9, level 0
  const auto verdict = [](const DataOutPart& part) {
    WriteSequences data{8192, 0, false, parameters()};
    EXPECT_TRUE(data.next_request(1).has_value());
    return data.take(part);
  };
  EXPECT_EQ(verdict({1, 0, 0, 4096, true}), Stored);
  EXPECT_EQ(verdict({1, 0, 0, 4097, true}), Incorrect) << "too much";
  EXPECT_EQ(verdict({1, 0, 0, 4095, true}), Incorrect) << "too little";
  EXPECT_EQ(verdict({1, 0, 512, 512, false}), Incorrect) << "a hole";
  EXPECT_EQ(verdict({1, 1, 0, 4096, true}), Incorrect) << "DataSN";
  EXPECT_EQ(verdict({2, 0, 0, 4096, true}), Incorrect) << "Target Transfer Tag";
  EXPECT_EQ(verdict({1, 0, 0, 4096, true, true}), Incorrect) << "data digest";
  EXPECT_EQ(verdict({kNoTag, 0, 0, 512, true}), Unexpected);
}

TEST(WriteSequences, TakeAnyOrderWithinASequenceIfThatWasAgreed) {  // RFC 7143 §13.18
  Parameters any = parameters();
  any.data_pdu_in_order = false;
  WriteSequences data{4096, 0, false, any};
  ASSERT_TRUE(data.next_request(1).has_value());
  EXPECT_EQ(data.take({1, 0, 1024, 1024, false}), Stored);
  EXPECT_EQ(data.take({1, 1, 1536, 1024, false}), Incorrect) << "twice";
  WriteSequences whole{4096, 0, false, any};
  ASSERT_TRUE(whole.next_request(1).has_value());
  EXPECT_EQ(whole.take({1, 0, 3072, 1024, false}), Stored);
  EXPECT_EQ(whole.take({1, 1, 0, 1024, false}), Stored);
  EXPECT_EQ(whole.take({1, 2, 1024, 2048, true}), Stored);
  EXPECT_TRUE(whole.is_complete());
}

TEST(WriteSequences, AskAgainForWhatWasLost) {  // RFC 7143 §7.2.2: recovery R2T
  Parameters recovering = parameters();
  recovering.error_recovery_level = 1;
  WriteSequences data{4096, 0, true, recovering};
  EXPECT_EQ(data.take({kNoTag, 0, 0, 512, false}), Stored);
  EXPECT_EQ(data.take({kNoTag, 2, 1024, 512, false}), Discarded) << "DataSN 1 was lost";
  EXPECT_EQ(data.take({kNoTag, 3, 1536, 512, true}), Discarded);
  const auto again = data.next_request(1);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->offset, 512U);
  EXPECT_EQ(again->bytes, 1536U);
  EXPECT_EQ(data.take({1, 0, 512, 1536, true, true}), Discarded) << "damaged";
  const auto third = data.next_request(2);
  ASSERT_TRUE(third.has_value());
  EXPECT_EQ(third->offset, 512U) << "first what is missing, then what was never asked for";
  const auto rest = data.next_request(3);
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->offset, 2048U);
  EXPECT_EQ(rest->bytes, 2048U);
}

TEST(WriteSequences, AskAgainOnAnotherConnection) {
  Parameters recovering = parameters();
  recovering.error_recovery_level = 2;
  WriteSequences data{4096, 0, false, recovering};
  ASSERT_TRUE(data.next_request(1).has_value());
  EXPECT_EQ(data.take({1, 0, 0, 1024, false}), Stored);
  data.ask_again();
  EXPECT_EQ(data.take({1, 1, 1024, 1024, false}), Discarded) << "an old tag";
  const auto again = data.next_request(2);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->offset, 1024U);
  EXPECT_EQ(again->r2t_sn, 1U);
  EXPECT_EQ(data.take({2, 0, 1024, 3072, true}), Stored);
  EXPECT_TRUE(data.is_complete());
}

}  // namespace
}  // namespace weft::iscsi
